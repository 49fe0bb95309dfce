"""One file a resource. A group's name comes last in a path, for it may have slashes in it."""

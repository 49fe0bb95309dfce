"""The REST API: routes hold no rules, they ask who may, call a service, and answer."""

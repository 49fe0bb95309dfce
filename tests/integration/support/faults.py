"""Something happens at the very moment at which a statement is about to be sent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Engine

Action = Callable[[sa.Connection], object]


class CoordinatorDied(BaseException):
    """As by kill -9: no handler of the product may see it."""


class Statements:
    """Counts statements and commits of one piece of work, and runs an action in front of the chosen one.

    :param at: the number of the statement, from 1; 0 for never; or words of it, for the first that has them.
    :param action: what happens then; its own statements are not counted.
    """

    def __init__(self, at: int | str = 0, action: Action = lambda _c: None) -> None:
        self.at = at
        self.action = action
        self.seen: list[str] = []
        self.happened = False
        self.inside = False

    def before_statement(
        self, connection: sa.Connection, _cursor: object, statement: str, *_rest: object
    ) -> None:
        """Listener of SQLAlchemy."""
        self.note(connection, statement)

    def before_commit(self, connection: sa.Connection) -> None:
        """Listener of SQLAlchemy: the moment at which all is done and nothing is durable."""
        self.note(connection, "COMMIT")

    def note(self, connection: sa.Connection, what: str) -> None:
        """Count, and act when it is time."""
        if self.inside:
            return
        self.seen.append(what)
        if not self.happened and (self.at in what if isinstance(self.at, str) else len(self.seen) == self.at):
            self.happened = self.inside = True
            try:
                self.action(connection)
            finally:
                self.inside = False


@contextlib.contextmanager
def watched(engine: Engine, at: int | str = 0, action: Action = lambda _c: None) -> Iterator[Statements]:
    """Watch the statements that a piece of work sends through `engine`."""
    statements = Statements(at, action)
    listeners = (
        ("before_cursor_execute", statements.before_statement),
        ("commit", statements.before_commit),
    )
    for name, listener in listeners:
        sa.event.listen(engine, name, listener)
    try:
        yield statements
    finally:
        for name, listener in listeners:
            sa.event.remove(engine, name, listener)


def die(connection: sa.Connection) -> None:
    """The coordinator is killed, and its connection breaks."""
    connection.invalidate()
    raise CoordinatorDied

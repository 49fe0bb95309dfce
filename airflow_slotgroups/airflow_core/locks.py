"""Row locks and time-outs, on databases that have them and on those that do not (DESIGN rule 8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.models.taskinstance import TaskInstance
from airflow.utils.sqlalchemy import USE_ROW_LEVEL_LOCKING, with_row_locks
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.typing import AnySelect

LOCK_TIMEOUT_MS = 900
"""Below PostgreSQL's deadlock_timeout (1 s), so that in a deadlock it is we who give way, not the scheduler."""

BRIEF_TIMEOUT_MS = 50
"""For what the coordinator does anyhow a moment later."""

IDLE_TIMEOUT_MS = 30_000
"""A stopped coordinator must not keep its locks for ever."""

LOCKED_CODES = ("55P03", "40P01", "40001")
LOST_NUMBERS = (1213, 1305)
"""A deadlock on MySQL undoes the whole transaction; what one hears of it is that the savepoint does not exist."""
LOCKED_NUMBERS = (*LOST_NUMBERS, 1205, 3572)
LOCKED_WORDS = ("database is locked", "database table is locked")


def has_row_locks(session: Session) -> bool:
    """Tell whether Airflow itself locks rows: not on SQLite, not on MariaDB, and not if it is told not to."""
    dialect = session.get_bind().dialect
    if dialect.name == "sqlite" or not USE_ROW_LEVEL_LOCKING:
        return False
    return dialect.name != "mysql" or bool(getattr(dialect, "supports_for_update_of", False))


def skip_locked(query: AnySelect, session: Session) -> AnySelect:
    """Lock the rows that nobody else has locked, and leave out the others."""
    return with_row_locks(query, session=session, skip_locked=True) if has_row_locks(session) else query


def skip_locked_task_instances(query: AnySelect, session: Session) -> AnySelect:
    """Lock the free task instances of an ORM query, and not the DAG runs that come with them."""
    if not has_row_locks(session):
        return query
    return with_row_locks(query, session=session, of=TaskInstance, skip_locked=True)


def no_wait(query: AnySelect, session: Session) -> AnySelect:
    """Lock the rows or raise at once."""
    return with_row_locks(query, session=session, nowait=True) if has_row_locks(session) else query


def wait_for_lock(query: AnySelect, session: Session) -> AnySelect:
    """Lock the rows, waiting at most `LOCK_TIMEOUT_MS`."""
    return with_row_locks(query, session=session) if has_row_locks(session) else query


def limit_waiting(session: Session, lock_timeout_ms: int = LOCK_TIMEOUT_MS) -> None:
    """Bound, for this transaction alone, how long it waits for locks and how long it may sit idle.

    Set per transaction and not per session, so that it also works behind a pooler such as PgBouncer.
    """
    dialect = session.get_bind().dialect.name
    if dialect == "postgresql":
        session.execute(
            text(
                "SELECT set_config('lock_timeout', :lock, true),"
                " set_config('idle_in_transaction_session_timeout', :idle, true)"
            ),
            {"lock": f"{lock_timeout_ms}ms", "idle": f"{IDLE_TIMEOUT_MS}ms"},
        )
    elif dialect == "mysql":
        session.execute(text("SET innodb_lock_wait_timeout = 1"))


@contextmanager
def briefly(session: Session) -> Iterator[None]:
    """Wait hardly at all for locks, in a savepoint of somebody else's transaction.

    Rows can be left out when they are locked; a whole table, as a migration or a VACUUM FULL locks it, can not.
    A savepoint that fails takes the setting back with it.
    """
    if session.get_bind().dialect.name != "postgresql":
        yield
        return
    before = session.scalar(text("SELECT current_setting('lock_timeout')"))
    set_timeout = text("SELECT set_config('lock_timeout', :timeout, true)")
    session.execute(set_timeout, {"timeout": f"{BRIEF_TIMEOUT_MS}ms"})
    yield
    session.execute(set_timeout, {"timeout": before})


def wait_as_before(session: Session) -> None:
    """Take the limit back where it is the connection's: others in this process will be given that connection."""
    if session.get_bind().dialect.name == "mysql":
        session.execute(text("SET innodb_lock_wait_timeout = DEFAULT"))


def is_locked(error: DBAPIError) -> bool:
    """Tell a lock that could not be had (or a deadlock) from every other database error."""
    origin = error.orig
    if getattr(origin, "pgcode", None) in LOCKED_CODES or getattr(origin, "sqlstate", None) in LOCKED_CODES:
        return True
    return number_of(error) in LOCKED_NUMBERS or any(word in str(origin) for word in LOCKED_WORDS)


def loses_transaction(error: Exception) -> bool:
    """Tell whether the transaction is gone, with its locks and all that was done in it: no savepoint helps."""
    return isinstance(error, DBAPIError) and (
        error.connection_invalidated or number_of(error) in LOST_NUMBERS
    )


def number_of(error: DBAPIError) -> object:
    """The number that MySQL gives an error."""
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments else None

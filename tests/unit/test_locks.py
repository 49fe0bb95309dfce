"""Telling a lock from every other error, and what each database can lock."""

from __future__ import annotations

import re
import sqlite3
from typing import Any
from unittest import mock

import psycopg2  # type: ignore[import-untyped]  # has no annotations
import pymysql.err  # type: ignore[import-untyped]  # has no annotations
import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import (
    LOCK_TIMEOUT_MS,
    has_row_locks,
    is_locked,
    limit_waiting,
    no_wait,
    skip_locked,
    wait_for_lock,
)
from airflow_slotgroups.models import SlotGroup


class PgError(Exception):
    """An error of psycopg2, whose real ones take their code from the server."""

    def __init__(self, code: str) -> None:
        super().__init__("some text")
        self.pgcode = code


class AsyncpgError(Exception):
    """An error of asyncpg or psycopg 3."""

    def __init__(self, code: str) -> None:
        super().__init__("some text")
        self.sqlstate = code


IS_LOCKED = {
    "PostgreSQL: lock_timeout, or NOWAIT": (PgError("55P03"), True),
    "PostgreSQL: deadlock": (PgError("40P01"), True),
    "PostgreSQL: serialization failure": (PgError("40001"), True),
    "PostgreSQL by sqlstate: lock not available": (AsyncpgError("55P03"), True),
    "PostgreSQL: unique violation": (PgError("23505"), False),
    "PostgreSQL: a column is missing": (PgError("42703"), False),
    "PostgreSQL: the server went away": (psycopg2.OperationalError("server closed the connection"), False),
    "MySQL: lock wait timeout": (pymysql.err.OperationalError(1205, "Lock wait timeout exceeded"), True),
    "MySQL: deadlock": (pymysql.err.OperationalError(1213, "Deadlock found"), True),
    "MySQL: NOWAIT": (pymysql.err.OperationalError(3572, "Statement aborted because of NOWAIT"), True),
    "MySQL: duplicate key": (pymysql.err.IntegrityError(1062, "Duplicate entry"), False),
    "MySQL: the server went away": (pymysql.err.OperationalError(2006, "MySQL server has gone away"), False),
    "SQLite: another writer": (sqlite3.OperationalError("database is locked"), True),
    "SQLite: another statement of the connection": (
        sqlite3.OperationalError("database table is locked: slot_group"),
        True,
    ),
    "SQLite: a table is missing": (sqlite3.OperationalError("no such table: slot_group"), False),
    "SQLite: a full disk": (sqlite3.OperationalError("database or disk is full"), False),
    "an error without arguments": (Exception(), False),
}


@pytest.mark.parametrize(
    ("origin", "expected"), [pytest.param(*row, id=sentence) for sentence, row in IS_LOCKED.items()]
)
def test_is_locked(origin: Exception, expected: bool) -> None:
    assert is_locked(DBAPIError("SELECT 1", {}, origin)) is expected


def session_on(dialect: Any) -> Any:
    session = mock.Mock(spec=Session)
    session.get_bind.return_value.dialect = dialect
    session.bind = session.get_bind.return_value
    return session


def mysql_dialect(*, for_update_of: bool) -> Any:
    dialect = mysql.dialect()
    dialect.supports_for_update_of = for_update_of
    return dialect


POSTGRES = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy's own
SQLITE = sqlite.dialect()
MYSQL_8 = mysql_dialect(for_update_of=True)
MARIADB = mysql_dialect(for_update_of=False)


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        pytest.param(POSTGRES, True, id="PostgreSQL"),
        pytest.param(MYSQL_8, True, id="MySQL 8"),
        pytest.param(MARIADB, False, id="MariaDB"),
        pytest.param(SQLITE, False, id="SQLite"),
    ],
)
def test_has_row_locks(dialect: Any, expected: bool) -> None:
    assert has_row_locks(session_on(dialect)) is expected


@pytest.mark.parametrize("dialect", [POSTGRES, MYSQL_8])
@pytest.mark.parametrize(
    ("lock", "clause"),
    [(skip_locked, "UPDATE SKIP LOCKED"), (no_wait, "UPDATE NOWAIT"), (wait_for_lock, "UPDATE")],
)
def test_a_locked_read_says_how_it_waits(dialect: Any, lock: Any, clause: str) -> None:
    sql = str(lock(select(SlotGroup.pool), session_on(dialect)).compile(dialect=dialect))

    # PostgreSQL has a weaker form, which still keeps every other writer out.
    assert re.search(f"FOR( NO KEY)? {clause}$", sql)


@pytest.mark.parametrize("dialect", [MARIADB, SQLITE])
@pytest.mark.parametrize("lock", [skip_locked, no_wait, wait_for_lock])
def test_without_row_locks_a_read_is_a_plain_read(dialect: Any, lock: Any) -> None:
    query = select(SlotGroup.pool)

    assert lock(query, session_on(dialect)) is query


def test_on_postgres_a_transaction_waits_less_than_until_a_deadlock_is_looked_for() -> None:
    session = session_on(POSTGRES)
    limit_waiting(session)
    [statement, values], _ = session.execute.call_args

    assert "'lock_timeout', :lock, true" in str(statement), "for this transaction alone"
    assert values == {"lock": "900ms", "idle": "30000ms"}
    assert LOCK_TIMEOUT_MS < 1000


def test_on_mysql_the_wait_is_the_shortest_there_is() -> None:
    session = session_on(MARIADB)
    limit_waiting(session)

    assert str(session.execute.call_args.args[0]) == "SET innodb_lock_wait_timeout = 1"


def test_on_sqlite_nothing_is_set() -> None:
    with Session(create_engine("sqlite://")) as session:
        limit_waiting(session)

        assert not session.in_transaction()

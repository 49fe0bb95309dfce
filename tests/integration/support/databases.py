"""Real databases with Airflow's schema and ours: one of its own for a test session, dropped at its end."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from airflow import settings
from airflow.models import import_all_models
from airflow.models.base import ID_LEN
from airflow.utils.db import _create_db_from_orm, add_default_pool_if_not_exists
from sqlalchemy.engine import Engine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session, scoped_session

from airflow_slotgroups.airflow_core.sessions import new_session
from airflow_slotgroups.db_manager import SlotGroupsDBManager
from devtools.servers import SERVERS

BACKENDS = ("sqlite", *SERVERS)

KEPT = ("alembic_version", "alembic_version_slotgroups", "alembic_version_fab", "log_template", "slot_pool")
"""Tables that cleaning leaves alone; of the pools `default_pool` alone is kept."""


@compiles(sa.String, "mysql")
def string_on_mysql(type_: sa.String, compiler: Any, **kw: Any) -> str:
    """Give ids the collation that Airflow gives them when its configured database is a MySQL.

    It chooses when its models are imported, and here they serve several databases.
    """
    words = str(compiler.visit_string(type_, **kw))
    return f"{words} COLLATE utf8mb3_bin" if type_.length == ID_LEN else words


@dataclass
class Database:
    """One backend, as Airflow configured it; at any time one of them is the database of this process."""

    backend: str
    url: str
    engine: Engine
    maker: Any

    @contextlib.contextmanager
    def active(self) -> Iterator[Database]:
        """Make it the database that Airflow and the product use."""
        names = ("SQL_ALCHEMY_CONN", "engine", "NonScopedSession", "Session")
        before = {name: getattr(settings, name, None) for name in names}
        scoped = scoped_session(self.maker)
        values = dict(zip(names, (self.url, self.engine, self.maker, scoped), strict=True))
        for name, value in values.items():
            setattr(settings, name, value)
        try:
            yield self
        finally:
            scoped.remove()
            for name, value in before.items():
                setattr(settings, name, value)

    def session(self) -> contextlib.AbstractContextManager[Session]:
        """Open a session that commits; the product's own way, so that both see the same database."""
        return new_session()

    @property
    def has_row_locks(self) -> bool:
        """Tell whether rows can be locked one by one, as far as Airflow uses that."""
        return self.backend == "postgresql"

    def clean(self, *, keep: tuple[str, ...] = ()) -> None:
        """Delete the rows of every table that has some."""
        with self.engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM slot_pool WHERE pool <> 'default_pool'"))
            connection.execute(
                sa.text("UPDATE slot_pool SET slots = 128, include_deferred = :no"), {"no": False}
            )
            for table in self.tables_with_rows(connection):
                if table.name not in (*KEPT, *keep):
                    connection.execute(table.delete())

    def tables_with_rows(self, connection: sa.Connection) -> list[sa.Table]:
        """Find, in one statement, the tables to clean, those that point at others first."""
        tables = all_tables()
        some = [
            sa.select(sa.literal(number).label("number")).where(
                sa.exists(sa.select(sa.literal(1)).select_from(table))
            )
            for number, table in enumerate(tables)
        ]
        return [tables[row.number] for row in connection.execute(sa.union_all(*some))]


def all_tables() -> list[sa.Table]:
    """Airflow's tables and ours, children before parents."""
    from airflow.models.base import Base

    return [*SlotGroupsDBManager.metadata.sorted_tables, *reversed(Base.metadata.sorted_tables)]


@contextlib.contextmanager
def own_database(backend: str, folder: Path) -> Iterator[Database]:
    """Make a database of a unique name, configured as Airflow does it; drop it at the end."""
    with own_url(backend, folder) as url:
        database = configure(backend, url)
        try:
            yield database
        finally:
            database.engine.dispose()


@contextlib.contextmanager
def own_url(backend: str, folder: Path) -> Iterator[str]:
    """Make an empty database on the server, or name a file for SQLite; without a server the test is skipped."""
    name = f"slotgroups_test_{uuid.uuid4().hex[:12]}"
    if backend == "sqlite":
        yield f"sqlite:///{folder / name}.db"
        return
    variable = SERVERS[backend]
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no server")
    server = sa.make_url(os.environ[variable])
    options = " CHARACTER SET utf8mb4" if backend == "mariadb" else ""
    run_on(server, f"CREATE DATABASE {name}{options}")
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        force = " WITH (FORCE)" if backend == "postgresql" else ""
        run_on(server, f"DROP DATABASE {name}{force}")


def run_on(server: sa.URL, statement: str) -> None:
    """Run one statement outside any transaction."""
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(statement))
    engine.dispose()


def configure(backend: str, url: str) -> Database:
    """Let Airflow make the engine, so that isolation, pragmas and time zone are what they are in real life."""
    names = ("SQL_ALCHEMY_CONN", "engine", "NonScopedSession", "Session")
    before = {name: getattr(settings, name, None) for name in names}
    settings.SQL_ALCHEMY_CONN = url
    settings.configure_orm()
    database = Database(backend, url, settings.engine, settings.NonScopedSession)
    if backend == "sqlite":
        sa.event.listen(database.engine, "connect", never_wait)
    for name, value in before.items():
        setattr(settings, name, value)
    return database


def never_wait(connection: Any, _record: object) -> None:
    """Tests interleave by hand, in one thread: whoever has the lock does not go on while another waits."""
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("PRAGMA synchronous = OFF")


def make_schema(database: Database) -> None:
    """Make Airflow's tables as `airflow db migrate` does on an empty database, and ours by our migrations.

    Managers of other providers are left out: their tables are none of ours, and their warnings neither.
    """
    import_all_models()
    with database.active():
        with new_session() as session:
            _create_db_from_orm(session)
        with new_session() as session:
            add_default_pool_if_not_exists(session=session)
        with new_session() as session:
            SlotGroupsDBManager(session).upgradedb(use_migration_files=True)

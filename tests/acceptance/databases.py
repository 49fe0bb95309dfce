"""The database of one Airflow, a file of its own or one on a server: a copy of one that was migrated once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from devtools.deployment import Deployment
from devtools.servers import SERVERS

POSTGRES_VARIABLE = SERVERS["postgresql"]


class Migrated:
    """Runs `airflow db migrate` once for each kind of database; every Airflow then gets a copy.

    :param home: where the Airflow lives that migrates.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.made: dict[str, str] = {}
        self.stack = ExitStack()

    def url(self, kind: str) -> str:
        """The database to copy, of which nobody has a connection."""
        if kind not in self.made:
            home = self.home / kind
            home.mkdir()
            self.made[kind] = self.stack.enter_context(new_database(kind, home))
            Deployment(home, database_url=self.made[kind]).migrate()
        return self.made[kind]

    @contextmanager
    def copy(self, kind: str, home: Path) -> Iterator[str]:
        """Give the URL of a new copy."""
        template = str(make_url(self.url(kind)).database)
        with new_database(kind, home, template) as url:
            yield url


@contextmanager
def new_database(kind: str, home: Path, template: str | None = None) -> Iterator[str]:
    """Give the URL of a new database, a SQLite file in `home` or one on a server, dropped afterwards.

    :param template: the file or the database on that server to copy; without one it is empty.
    """
    if kind == "sqlite":
        if template:
            shutil.copyfile(template, home / "airflow.db")
        # Airflow's own 5 s are too few for a dozen busy scenarios: its scheduler dies of a locked database.
        yield f"sqlite:///{home / 'airflow.db'}?timeout=60"
        return
    server = os.environ.get(POSTGRES_VARIABLE)
    if not server:
        pytest.skip(f"{POSTGRES_VARIABLE} names no server")
    name = f"slotgroups_acceptance_{uuid4().hex[:12]}"
    on_server(server, f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        on_server(server, f'DROP DATABASE "{name}" WITH (FORCE)')


def on_server(server: str, statement: str) -> None:
    """Run a statement that can not be part of a transaction."""
    engine = create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))

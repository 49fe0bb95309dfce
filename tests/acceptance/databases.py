"""The database of one Airflow: a file of its own, or a database of its own on a server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

POSTGRES_VARIABLE = "SLOTGROUPS_TEST_POSTGRES"


@contextmanager
def new_database(kind: str, home: Path) -> Iterator[str]:
    """Give the URL of an empty database, a SQLite file in `home` or one on a server, dropped afterwards."""
    if kind == "sqlite":
        # Airflow's own 5 s are too few for a dozen busy scenarios: its scheduler dies of a locked database.
        yield f"sqlite:///{home / 'airflow.db'}?timeout=60"
        return
    server = os.environ.get(POSTGRES_VARIABLE)
    if not server:
        pytest.skip(f"{POSTGRES_VARIABLE} names no server")
    name = f"slotgroups_acceptance_{uuid4().hex[:12]}"
    on_server(server, f'CREATE DATABASE "{name}"')
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        on_server(server, f'DROP DATABASE "{name}" WITH (FORCE)')


def on_server(server: str, statement: str) -> None:
    """Run a statement that can not be part of a transaction."""
    engine = create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))

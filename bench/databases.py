"""An Airflow of its own for each database at hand, its tables made, nothing of it running yet."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from devtools.deployment import Deployment
from devtools.servers import SERVERS

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".dev" / "bench"
DAGS = ROOT / "bench" / "dags"
POSTGRES_VARIABLE = SERVERS["postgresql"]


def kinds() -> list[str]:
    """The databases at hand."""
    return ["sqlite", "postgresql"] if os.environ.get(POSTGRES_VARIABLE) else ["sqlite"]


@contextmanager
def migrated(kind: str) -> Iterator[Deployment]:
    """An Airflow on an empty database, which goes with it."""
    home = HOME / kind
    shutil.rmtree(home, ignore_errors=True)
    with database_url(kind, home) as url:
        airflow = Deployment(home, dags=DAGS, database_url=url)
        airflow.migrate()
        yield airflow


@contextmanager
def database_url(kind: str, home: Path) -> Iterator[str]:
    """A SQLite file in the home, or a database on the server that the environment names."""
    if kind == "sqlite":
        yield f"sqlite:///{home / 'airflow.db'}"
        return
    server, name = os.environ[POSTGRES_VARIABLE], f"slotgroups_bench_{uuid4().hex[:12]}"
    run_on(server, f'CREATE DATABASE "{name}"')
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        run_on(server, f'DROP DATABASE "{name}" WITH (FORCE)')


def run_on(server: str, statement: str) -> None:
    """Run a statement that can not be part of a transaction."""
    engine = create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))

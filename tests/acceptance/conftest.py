"""One Airflow a database for all scenarios that can share it, and one that may be treated roughly."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest
from sqlalchemy import text

from devtools.deployment import Deployment

from .board import BODY, Board, Body
from .databases import Migrated
from .people import api_server_for_people
from .world import World

DAGS = Path(__file__).parent / "dags"
SHARED_DAGS = (
    "order",
    "names",
    "width",
    "ending",
    "deferring",
    "adopting",
    "everywhere",
    "authors",
    "levers",
)
#: These run for long by themselves: the others fill the time beside them.
LONG = ("s34", "s33", "s77_clear_of", "s70", "s26", "s76", "s71", "s49", "s51_clearing", "s42", "levers")

DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(scope="session", params=DATABASES)
def database(request: pytest.FixtureRequest) -> str:
    """The kind of database, one after the other."""
    return str(request.param)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Migrated]:
    """Databases with all tables."""
    migrated = Migrated(tmp_path_factory.mktemp("migrated"))
    with migrated.stack:
        yield migrated


@pytest.fixture(scope="session")
def board(
    request: pytest.FixtureRequest,
    database: str,
    migrated: Migrated,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Board]:
    """The shared Airflow with all selected scenarios under way."""
    bodies = {
        getattr(item.function, BODY, None) for item in request.session.items if hasattr(item, "function")
    }
    home = tmp_path_factory.mktemp(f"shared_{database}")
    config = {"AIRFLOW__CORE__PARALLELISM": "36", "AIRFLOW__SLOTGROUPS__ALLOW_RUN_PRIORITY": "True"}
    with ExitStack() as stack:
        url = stack.enter_context(migrated.copy(database, home))
        airflow = stack.enter_context(new_airflow(home, url, config, SHARED_DAGS))
        airflow.start(triggerer=True)
        world = stack.enter_context(new_world(airflow))
        airflow.wait_dag_parsed(
            ["s01", "s03", "s05_a", "s26_clear", "s34", "s70", "s71_49", "s52", "levers"], timeout=120
        )
        world.rest("POST", "pools", {"name": "inside", "slots": 100})
        board = Board(world, sorted((body for body in bodies if body), key=length), stack.close)
        yield board
        board.close()


def length(body: Body) -> tuple[bool, str]:
    """The order in which scenarios are started."""
    return not body.__name__.removeprefix("test_").startswith(LONG), body.__name__


@contextmanager
def new_airflow(home: Path, url: str, config: dict[str, str], dags: Iterable[str]) -> Iterator[Deployment]:
    """An Airflow with its DAGs, not started yet.

    :param url: of a database that has its tables.
    """
    settings = {
        # Files that leave the word airflow to `acceptance_parts` are DAG files all the same.
        "AIRFLOW__CORE__DAG_DISCOVERY_SAFE_MODE": "False",
        # Thirty tasks that wait at gates send fifteen heartbeats a second, and not thirty.
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
        **config,
    }
    with Deployment(home, database_url=url, config=settings) as airflow:
        shutil.copy(DAGS / ".airflowignore", airflow.dags)
        shutil.copy(DAGS / "acceptance_parts.py", airflow.dags)
        for name in dags:
            shutil.copy(DAGS / f"{name}_dags.py", airflow.dags)
        yield airflow


@contextmanager
def new_world(airflow: Deployment) -> Iterator[World]:
    """The world of a running Airflow."""
    sqlite = airflow.engine().dialect.name == "sqlite"
    with api_server_for_people(airflow) if sqlite else nullcontext():
        world = World(airflow)
        try:
            yield world
        finally:
            world.close()


#: A scheduler that was killed is noticed, and its tasks are looked after, within seconds.
QUICK_RECOVERY = {
    "AIRFLOW__CORE__PARALLELISM": "8",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    # Less, and schedulers that are merely slow take each other for dead.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
}


@pytest.fixture(scope="module")
def external(database: str, migrated: Migrated, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An Airflow whose scheduler starts no coordinator."""
    config = {**QUICK_RECOVERY, "AIRFLOW__SLOTGROUPS__COORDINATOR": "external"}
    home = tmp_path_factory.mktemp(f"external_{database}")
    with migrated.copy(database, home) as url, new_airflow(home, url, config, ["rough"]) as airflow:
        airflow.start()
        with new_world(airflow) as world:
            airflow.wait_dag_parsed(["s60", "s77_orphan", "s67_waiters"])
            yield world


@pytest.fixture(scope="module")
def unmigrated(
    database: str, migrated: Migrated, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """An Airflow that was started before `airflow db migrate` had made our tables."""
    home = tmp_path_factory.mktemp(f"unmigrated_{database}")
    with migrated.copy(database, home) as url, new_airflow(home, url, QUICK_RECOVERY, ["rough"]) as airflow:
        drop_our_tables(airflow)
        airflow.start()
        with new_world(airflow) as world:
            airflow.wait_dag_parsed(["s61", "s61_plain"])
            yield world


def drop_our_tables(airflow: Deployment) -> None:
    """Leave the database as it is before the package is installed."""
    ours = (
        "slot_request",
        "slot_group",
        "slot_group_change",
        "slot_coordinator",
        "alembic_version_slotgroups",
    )
    with airflow.engine().connect() as connection:
        for table in ours:
            connection.execute(text(f"DROP TABLE {table}"))


@pytest.fixture(scope="module")
def two_schedulers(migrated: Migrated, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An Airflow on PostgreSQL with two schedulers, so with two coordinators."""
    home = tmp_path_factory.mktemp("two_schedulers")
    with migrated.copy("postgres", home) as url, new_airflow(home, url, QUICK_RECOVERY, ["rough"]) as airflow:
        airflow.start(schedulers=2)
        with new_world(airflow) as world:
            airflow.wait_dag_parsed(["s20", "s20_plain", "s25"])
            world.wait(lambda: len(world.coordinators()) == 2, "two coordinators")
            yield world

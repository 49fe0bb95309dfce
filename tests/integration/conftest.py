"""Databases and worlds for the integration tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.integration.support.clock import FakeClock
from tests.integration.support.databases import BACKENDS, Database, make_schema, own_database
from tests.integration.support.world import World

MARKS = {
    "sqlite": (),
    "postgresql": (pytest.mark.postgres,),
    "mariadb": (pytest.mark.mysql,),
}


def backends(*names: str) -> list[object]:
    """Parameters of the fixture `database`, for tests that are about some backends alone."""
    return [pytest.param(name, marks=MARKS[name]) for name in names]


class Databases:
    """The databases of this test session, each made when a test first asks for it."""

    def __init__(self, factory: pytest.TempPathFactory, stack: contextlib.ExitStack) -> None:
        self.factory = factory
        self.stack = stack
        self.made: dict[str, Database] = {}

    def get(self, backend: str) -> Database:
        """Return the database of a backend, or skip the test for want of a server."""
        if backend not in self.made:
            folder = self.factory.mktemp(backend)
            self.made[backend] = self.stack.enter_context(own_database(backend, folder))
            make_schema(self.made[backend])
        return self.made[backend]


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with contextlib.ExitStack() as stack:
        yield Databases(tmp_path_factory, stack)


@pytest.fixture(params=backends(*BACKENDS))
def database(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Database]:
    """One backend after the other, clean, and the one that Airflow and the product use."""
    found = databases.get(request.param)
    with found.active():
        found.clean()
        yield found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock of the product, services included."""
    fake = FakeClock()
    for module in ("groups", "queue", "health"):
        monkeypatch.setattr(f"airflow_slotgroups.services.{module}.utcnow", fake)
    return fake


@pytest.fixture
def world(database: Database, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> World:
    """DAGs, runs and tasks on a clean database, and the product's cycle."""
    # How long a discovery takes must not decide on what a test sees.
    monkeypatch.setattr("airflow_slotgroups.coordinator.steps.SLOW_DISCOVERY", float("inf"))
    return World(database, clock)

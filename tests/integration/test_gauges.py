"""What a coordinator tells Airflow's metrics, read from real groups."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from airflow._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.observability import stats

from airflow_slotgroups.coordinator import metrics as module
from airflow_slotgroups.coordinator.metrics import Event, Metrics, What
from airflow_slotgroups.domain.states import Mode
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.services import requests
from airflow_slotgroups.services.groups import set_mode
from tests.integration.support.faults import watched
from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import WHO, Key, World


class Backend:
    """Keeps the last value of each gauge, by name and pool."""

    def __init__(self) -> None:
        self.gauges: dict[str, dict[str, float]] = {}

    def gauge(self, stat: str, value: float, *, tags: Any) -> None:
        self.gauges.setdefault(tags["pool_name"], {})[stat.removeprefix("slotgroups.")] = value

    def timing(self, stat: str, dt: timedelta, *, tags: Any = None) -> None:
        """Of no interest here."""

    def incr(self, stat: str, count: int = 1, *, tags: Any = None) -> None:
        """Of no interest here."""


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    monkeypatch.setenv("AIRFLOW__METRICS__LEGACY_NAMES_ON", "False")
    monkeypatch.setattr(module, "INTERVAL", 0.0)
    backend = Backend()
    stats.initialize(factory=lambda: backend, export_legacy_names=False)
    yield backend
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)


@pytest.fixture
def world(world: World) -> World:
    world.dag("dag", max_active_tasks=100)
    world.run("dag", "run")
    return world


@pytest.fixture
def metrics(world: World) -> Metrics:
    return Metrics(world.database.session, world.clock)


def read(metrics: Metrics, backend: Backend) -> dict[str, dict[str, float]]:
    """Have the gauges sent."""
    backend.gauges.clear()
    metrics.cycle_ended(0.01, [])
    assert not metrics.failed
    return backend.gauges


def test_how_groups_stand(world: World, metrics: Metrics, backend: Backend) -> None:
    world.group("P", 2)
    world.group("no limit", -1)
    world.group("empty", 4)
    for number in range(4):
        world.task(f"t{number}", "P")
    world.task("free", "no limit")
    world.clock.advance(100)
    world.round()
    requests.force_start("P", [Which(task_id="t3")], who=WHO)
    world.round()
    world.clock.advance(20)

    gauges = read(metrics, backend)
    waited = gauges["P"].pop("oldest_wait_seconds")
    assert round(waited) == 120
    assert gauges["P"] == {
        "size": 2,
        "use": 3,
        "free": 0,
        "overdraft": 1,
        "waiting": 1,
        "stalled_seconds": 0,
    }
    assert (gauges["no_limit"]["size"], gauges["no_limit"]["free"], gauges["no_limit"]["use"]) == (-1, -1, 1)
    assert gauges["empty"] == {
        "size": 4,
        "use": 0,
        "free": 4,
        "overdraft": 0,
        "waiting": 0,
        "stalled_seconds": 0,
        "oldest_wait_seconds": 0,
    }


def test_a_bypass_has_no_limit(world: World, metrics: Metrics, backend: Backend) -> None:
    world.group("P", 1)
    set_mode("P", Mode.BYPASS, who=WHO)

    gauges = read(metrics, backend)["P"]
    assert (gauges["size"], gauges["free"], gauges["overdraft"]) == (-1, -1, 0)


def test_no_groups_and_no_gauges(world: World, metrics: Metrics, backend: Backend) -> None:
    assert read(metrics, backend) == {}


def test_a_queue_that_does_not_move_is_told_from_one_that_does(
    world: World, metrics: Metrics, backend: Backend
) -> None:
    """Somebody fits and is not let in, by two readings in a row: the alert for every stuck queue."""
    world.group("P", 1)
    world.task("t", "P")
    world.clock.advance()
    with world.database.session() as session:
        session.execute(sa.text("UPDATE slot_group SET slots = 0"))
    world.round()
    with world.database.session() as session:
        session.execute(sa.text("UPDATE slot_group SET slots = 1"))

    assert read(metrics, backend)["P"]["stalled_seconds"] == 0
    world.clock.advance(30)
    assert read(metrics, backend)["P"]["stalled_seconds"] == 30
    world.clock.advance(30)
    assert read(metrics, backend)["P"]["stalled_seconds"] == 60
    world.round()
    assert read(metrics, backend)["P"]["stalled_seconds"] == 0


def test_who_waits_rightly_is_no_stall(world: World, metrics: Metrics, backend: Backend) -> None:
    """A full group, a paused one, a paused DAG."""
    scheduler = FakeScheduler(world.database, world.clock)
    world.group("P", 1)
    world.group("Q", 1)
    for task_id, pool in (("holds", "P"), ("waits", "P")):
        world.task(task_id, pool)
    set_mode("Q", Mode.PAUSED, who=WHO)
    world.task("paused", "Q")
    world.round()
    for _ in range(3):
        world.clock.advance(60)
        assert {one["stalled_seconds"] for one in read(metrics, backend).values()} == {0}

    scheduler.do("pause", "dag", True)
    set_mode("Q", Mode.ACTIVE, who=WHO)
    for _ in range(3):
        world.clock.advance(60)
        assert {one["stalled_seconds"] for one in read(metrics, backend).values()} == {0}


def test_what_a_cycle_tells_of_itself(world: World) -> None:
    scheduler = FakeScheduler(world.database, world.clock)
    world.group("P", 1)
    first, _ = world.task("first", "P"), world.task("second", "P")
    world.clock.advance(10)
    events = world.round().events

    assert [(event.what, event.pool) for event in events] == [
        (What.DISCOVERIES, "P"),
        (What.DISCOVERIES, "P"),
        (What.GRANTS, "P"),
    ]
    assert events[-1].took is not None
    assert round(events[-1].took.total_seconds()) == 10
    scheduler.do("pause", "dag", True)
    assert world.round().events == [Event(What.PUT_BACKS, "P")]
    scheduler.do("pause", "dag", False)
    world.round()
    scheduler.run_to(first)
    world.clock.advance(60)
    scheduler.do("end", first, "success")
    released, granted = world.round().events
    assert (released.what, granted.what) == (What.RELEASES, What.GRANTS)
    assert released.took is not None
    assert round(released.took.total_seconds()) == 60


def test_statements_do_not_grow_with_waiters(world: World, metrics: Metrics, backend: Backend) -> None:
    world.group("P", 0)
    counts = []
    for number in (1, 50):
        world.tasks([Key("dag", "run", f"t{number}-{one}") for one in range(number)], "P")
        world.round()
        with watched(world.database.engine) as statements:
            metrics.cycle_ended(0.01, [])
        counts.append(len(statements.seen))
    assert counts[0] == counts[1]
    assert backend.gauges["P"]["waiting"] == 51

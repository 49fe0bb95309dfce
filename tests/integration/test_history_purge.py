"""What is kept of ended requests, what is read of it, and what is forgotten (S37)."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_slotgroups.coordinator.purge import Purge
from airflow_slotgroups.domain.errors import InvalidValueError, UnknownGroupError
from airflow_slotgroups.models import SlotGroupChange, SlotRequest
from airflow_slotgroups.services import history
from airflow_slotgroups.services.groups import dissolve
from tests.integration.conftest import backends
from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import WHO, World

DAY = 24 * 3600
KEEP = timedelta(days=30)


@pytest.fixture
def world(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(history, "utcnow", world.clock)
    world.dag("dag")
    world.run("dag", "run")
    return world


def write_ended(world: World, number: int, age: timedelta, pool: str = "P") -> None:
    """Requests that ended so long ago, in the one statement that each database has for many rows."""
    ended = world.clock.now - age
    row = {
        "pool": pool,
        "kind": "task",
        "dag_id": "dag",
        "run_id": "old",
        "task_id": "t",
        "map_index": -1,
        "try_number": 1,
        "slots": 1,
        "priority": 1,
        "order_major": -1,
        "order_minor": 0,
        "state": "released",
        "live": None,
        "admission": "queue",
        "suspended": False,
        "forced": False,
        "passes": 0,
        "was_queued": True,
        "enqueued_at": ended - timedelta(minutes=20),
        "arrived_at": ended - timedelta(minutes=20),
        "granted_at": ended - timedelta(minutes=10),
        "ended_at": ended,
        "end_reason": "ended",
    }
    table: Any = SlotRequest.__table__
    values = [sa.literal(value, type_=table.c[name].type) for name, value in row.items()]
    numbers = sa.select(sa.literal(1).label("n")).cte("numbers", recursive=True)
    numbers = numbers.union_all(sa.select(numbers.c.n + 1).where(numbers.c.n < number))
    with world.database.session() as session:
        if world.database.backend == "mariadb":
            session.execute(sa.text(f"SET max_recursive_iterations = {number + 1}"))
        session.execute(
            sa.insert(table).from_select(list(row), sa.select(*values).select_from(numbers), False)
        )


# Reading


def test_the_history_tells_waiting_and_holding_use_and_size(world: World) -> None:
    scheduler = FakeScheduler(world.database, world.clock)
    world.group("P", 1)
    first, second = world.task("first", "P"), world.task("second", "P")
    world.round()
    scheduler.run_to(first)
    world.clock.advance(600)
    scheduler.do("end", first, "success")
    world.round()
    world.group("P", 3)
    scheduler.run_to(second)
    world.clock.advance(60)
    world.round()

    [bucket] = history.history_of("P", hours=1, buckets=1)
    assert (bucket.granted, bucket.most_used, bucket.most_waiting, bucket.size) == (2, 1, 2, 3)
    assert bucket.hold.median is not None
    assert bucket.wait.median is not None
    assert bucket.wait.p95 is not None
    assert round(bucket.hold.median.total_seconds()) == 600
    assert round(bucket.wait.median.total_seconds()) == 0
    assert round(bucket.wait.p95.total_seconds()) == 600

    [ended] = history.requests_of("P")
    assert (ended.task_id, ended.state.value, ended.end_reason) == ("first", "released", "ended")
    assert ended.held is not None
    assert round(ended.held.total_seconds()) == 600


def test_a_waiter_that_was_cancelled_has_waited_and_never_held(world: World) -> None:
    world.group("P", 0)
    task = world.task("t", "P")
    world.round()
    world.clock.advance(60)
    FakeScheduler(world.database, world.clock).do("mark", task, "failed")
    world.round()

    [ended] = history.requests_of("P")
    assert (ended.state.value, ended.held, ended.admission) == ("cancelled", None, None)
    assert ended.waited is not None
    assert round(ended.waited.total_seconds()) == 60
    assert history.history_of("P", buckets=1)[0].granted == 0


def test_the_size_of_before_the_span_is_known(world: World) -> None:
    world.group("P", 2)
    world.clock.advance(10 * 3600)
    world.group("P", 5)
    world.clock.advance(2700)

    assert [b.size for b in history.history_of("P", hours=2, buckets=4)] == [2, 2, 5, 5]


def test_the_last_ones_come_first_and_no_more_than_asked_for(world: World) -> None:
    world.group("P", 1)
    for hours in (3, 1, 2):
        write_ended(world, 1, timedelta(hours=hours))

    ended = history.requests_of("P", limit=2)
    assert [world.clock.now - one.ended_at for one in ended] == [timedelta(hours=1), timedelta(hours=2)]
    assert len(history.requests_of("P", hours=2.5)) == 2


@pytest.mark.parametrize("database", backends("sqlite"), indirect=True)
def test_what_is_no_stretch_of_time_is_refused(world: World) -> None:
    world.group("P", 1)
    for wrong in ({"hours": 0}, {"hours": 10**6}, {"buckets": 0}, {"buckets": 1001}):
        with pytest.raises(InvalidValueError):
            history.history_of("P", **wrong)
    for wrong in ({"hours": -1}, {"limit": 0}, {"limit": 10_001}):
        with pytest.raises(InvalidValueError):
            history.requests_of("P", **wrong)
    with pytest.raises(UnknownGroupError):
        history.history_of("Q")


# Purging


def test_old_requests_go_in_batches_and_others_stay(world: World) -> None:
    world.group("P", 1)
    for task_id in ("holds", "waits"):
        world.task(task_id, "P")
    world.round()
    write_ended(world, 2500, KEEP + timedelta(seconds=1))
    write_ended(world, 3, KEEP - timedelta(seconds=1))
    purge = Purge(world.database.session, KEEP, world.clock)

    assert [purge.run() for _ in range(4)] == [True, True, False, False]
    states = [request.state for request in world.requests()]
    assert sorted(states) == ["granted", "released", "released", "released", "waiting"]


def test_old_changes_go_and_the_last_one_of_each_group_stays(world: World) -> None:
    for slots in (1, 2, 3):
        world.group("P", slots)
    world.group("Q", 7)
    world.group("gone", 1)
    dissolve("gone", who=WHO)
    world.clock.advance(31 * DAY)
    world.group("P", 4)
    world.clock.advance()
    Purge(world.database.session, KEEP, world.clock).run()

    with world.database.session() as session:
        kept = session.execute(
            sa.select(SlotGroupChange.pool, SlotGroupChange.slots).order_by(SlotGroupChange.id)
        )
        assert [tuple(row) for row in kept] == [("P", 3), ("Q", 7), ("P", 4)]
    assert [b.size for b in history.history_of("P", hours=24 * 20, buckets=1)] == [4]


def test_a_purge_goes_by_the_index(database: Any, world: World) -> None:
    write_ended(world, 5000, timedelta(days=1))
    query = "SELECT id FROM slot_request WHERE ended_at < '2020-01-01' ORDER BY ended_at LIMIT 1000"
    explain = "EXPLAIN QUERY PLAN" if database.backend == "sqlite" else "EXPLAIN"
    with database.session() as session:
        if database.backend == "postgresql":
            session.execute(sa.text("ANALYZE slot_request"))
        plan = " ".join(str(row) for row in session.execute(sa.text(f"{explain} {query}")))
    assert "ix_slot_request_ended" in plan


class Stopwatch:
    """Times statements; of several runs of one statement the shortest counts, since others use the machine."""

    def __init__(self) -> None:
        self.started = 0.0
        self.times: dict[str, float] = {}

    def before(self, *_: object) -> None:
        self.started = time.perf_counter()

    def after(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        took = time.perf_counter() - self.started
        self.times[statement] = min(took, self.times.get(statement, took))


def database_time(world: World) -> float:
    """What the statements of a cycle take, with one holder and one waiter, as they are most of the time."""
    watch, engine = Stopwatch(), world.database.engine
    listeners = (("before_cursor_execute", watch.before), ("after_cursor_execute", watch.after))
    for name, listener in listeners:
        sa.event.listen(engine, name, listener)
    for _ in range(15):
        world.clock.advance()
        world.cycle.run()
    for name, listener in listeners:
        sa.event.remove(engine, name, listener)
    return sum(watch.times.values())


@pytest.mark.parametrize("database", backends("sqlite", "postgresql"), indirect=True)
def test_a_cycle_does_not_feel_ended_requests(world: World) -> None:
    """S37, with fewer rows than a million: reading the table once would take longer than the whole cycle."""
    world.group("P", 1)
    holder, _ = world.task("holds", "P"), world.task("waits", "P")
    world.round()
    FakeScheduler(world.database, world.clock).run_to(holder)
    world.rounds(2)
    before = database_time(world)
    write_ended(world, 200_000, timedelta(days=1))
    if world.database.backend == "postgresql":
        with world.database.session() as session:
            session.execute(sa.text("ANALYZE slot_request"))

    after = database_time(world)
    assert after < before * 1.5 + 0.01, f"{before:.4f} s before, {after:.4f} s after"

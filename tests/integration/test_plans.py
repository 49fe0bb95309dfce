"""What a cycle costs: every hot query uses an index, and a longer queue costs no more statements."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_slotgroups.domain.order import order_minor
from airflow_slotgroups.models import SlotRequest
from tests.integration.conftest import backends
from tests.integration.support.faults import watched
from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import Key, World

BIG = re.compile(r"\b(task_instance|slot_request)\b")
"""The tables that grow; the others hold a row for each group, pool, DAG or live run."""


@pytest.fixture
def scheduler(world: World) -> FakeScheduler:
    world.dag("dag", max_active_tasks=100_000)
    world.run("dag", "run")
    return FakeScheduler(world.database, world.clock)


def crowd(world: World, number: int, pool: str = "P", **values: Any) -> None:
    """Tasks that wait in one pool."""
    prefix = f"{pool}{values.get('state', 'w')}"
    world.tasks(
        [Key("dag", values.pop("run_id", "run"), f"{prefix}{n}") for n in range(number)], pool, **values
    )


def past(world: World, number: int) -> None:
    """Requests and task instances of long ago, in many DAGs and runs, as a deployment has them."""
    keys = [Key(f"dag{n % 10}", f"old{n // 10 % 20}", f"t{n // 200}") for n in range(number)]
    for dag_id in sorted({key.dag_id for key in keys}):
        world.dag(dag_id)
        for run_id in sorted({key.run_id for key in keys}):
            world.run(dag_id, run_id, state="success")
    world.tasks(keys, "P", state="success")
    now = world.clock.now
    same = {
        "pool": "P",
        "kind": "task",
        "try_number": 1,
        "slots": 1,
        "priority": 1,
        "order_major": -1,
        "order_minor": order_minor(now),
        "state": "released",
        "live": None,
        "admission": "queue",
        "suspended": False,
        "forced": False,
        "passes": 0,
        "was_queued": True,
        "enqueued_at": now,
        "arrived_at": now,
        "granted_at": now,
        "ended_at": now,
        "end_reason": "ended",
    }
    with world.database.session() as session:
        session.execute(sa.insert(SlotRequest), [{**key._asdict(), **same} for key in keys])


def statements_of(world: World) -> list[str]:
    """What one cycle sends."""
    world.clock.advance()
    with watched(world.database.engine) as seen:
        assert not world.cycle.run().errors
    return seen.seen


# --- Statements.


@pytest.mark.parametrize(
    ("case", "size", "holders"), [("full", 2, 2), ("granting", 2, 0), ("a wide head", 3, 2)]
)
def test_statements_do_not_grow_with_the_queue(
    world: World, scheduler: FakeScheduler, case: str, size: int, holders: int
) -> None:
    """DESIGN rule 9: 10 waiters and 2,000 cost the same, in a full group, a granting one, behind a head."""
    counts = []
    for number in (10, 2000):
        world.database.clean()
        world.dag("dag", max_active_tasks=100_000)
        world.run("dag", "run")
        world.group("P", 0)
        crowd(world, number)
        crowd(world, 1, pool_slots=2 if case == "a wide head" else 1, priority_weight=9, task_id="first")
        for _ in range(1 + number // 1000):
            world.cycle.run()
        if holders:
            crowd(world, holders, pool="P.running", state="running")
            world.cycle.run()
        world.group("P", size)
        counts.append(statements_of(world))
        if not holders:
            assert len(world.granted()) == size
    few, many = counts
    assert len(few) == len(many), few


def test_a_cycle_with_nothing_to_do_writes_nothing(world: World, scheduler: FakeScheduler) -> None:
    world.group("P", 1)
    crowd(world, 10)
    world.rounds(2)
    words = {statement.split()[0] for statement in statements_of(world)}
    assert words <= {"SELECT", "WITH", "COMMIT"}


def test_thousands_that_can_not_start_are_passed_in_one_cycle(world: World, scheduler: FakeScheduler) -> None:
    """5,000 waiters of a paused DAG above one that can: it goes in the next cycle."""
    world.dag("paused", paused=True)
    world.run("paused", "run")
    world.group("P", 1)
    world.tasks([Key("paused", "run", f"t{n}") for n in range(5000)], "P", priority_weight=9)
    world.rounds(6)
    assert len(world.waiting()) == 5000
    world.task("can", "P")
    world.round()
    assert world.granted() == ["can"]


def test_thousands_of_a_run_at_its_limit_are_passed_in_one_cycle(
    world: World, scheduler: FakeScheduler
) -> None:
    """The limit is reached by the plan itself: 1,500 waiters of that run stand between."""
    world.dag("one", max_active_tasks=1)
    world.run("one", "run")
    world.group("P", 2)
    world.tasks([Key("one", "run", f"t{n}") for n in range(1500)], "P", priority_weight=9)
    world.task("other", "P")
    world.set_group("P", mode="paused")
    world.rounds(2)
    world.set_group("P", mode="active")
    world.round()
    assert sorted(world.granted()) == ["other", "t0"]


# --- Plans.


def selects_of_a_cycle(world: World) -> list[tuple[str, Any]]:
    """Every SELECT that a granting cycle, a sweep and an urgent cycle send, with its parameters."""
    seen: list[tuple[str, Any]] = []

    def listen(_c: object, _cursor: object, statement: str, parameters: Any, *_rest: object) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            seen.append((statement, parameters))

    sa.event.listen(world.database.engine, "before_cursor_execute", listen)
    try:
        world.round()
        world.clock.advance()
        world.cycle.run(thorough=False)
    finally:
        sa.event.remove(world.database.engine, "before_cursor_execute", listen)
    return seen


def fill(world: World, scheduler: FakeScheduler) -> None:
    """A long past, two queues, holders, and a slot that has just become free.

    The queues are short beside the past: for long ones reading a whole small table once is the better plan.
    """
    past(world, 8000)
    world.group("P", 3)
    world.group("Q", 3)
    for pool in ("P", "Q"):
        crowd(world, 15, pool=pool)
    world.rounds(2)
    scheduler.critical_section()
    for key in [Key("dag", "run", name) for name in world.granted()][:2]:
        scheduler.do("mark", key, "success")
    crowd(world, 1, pool="P.running", state="running")
    crowd(world, 1, pool="Q.running")


@pytest.mark.parametrize("database", backends("postgresql"), indirect=True)
def test_every_hot_query_uses_an_index_on_postgresql(world: World, scheduler: FakeScheduler) -> None:
    fill(world, scheduler)
    with world.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("ANALYZE"))
    scans = []
    for statement, parameters in selects_of_a_cycle(world):
        if BIG.search(statement):
            found = sequential_scans(world, statement, parameters)
            scans += [f"{table}: {statement}" for table in found]
    assert not scans, "\n\n".join(scans)


def sequential_scans(world: World, statement: str, parameters: Any) -> set[str]:
    """The big tables that PostgreSQL would read from one end to the other."""
    found: set[str] = set()

    def walk(node: dict[str, Any]) -> None:
        if node["Node Type"] == "Seq Scan" and BIG.fullmatch(node["Relation Name"]):
            found.add(node["Relation Name"])
        for child in node.get("Plans", ()):
            walk(child)

    with world.database.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).scalar_one()
    walk((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])
    return found


@pytest.mark.parametrize("database", backends("sqlite"), indirect=True)
def test_every_hot_query_uses_an_index_on_sqlite(world: World, scheduler: FakeScheduler) -> None:
    fill(world, scheduler)
    scans = []
    for statement, parameters in selects_of_a_cycle(world):
        if BIG.search(statement):
            with world.database.engine.connect() as connection:
                plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            scans += [f"{row.detail}: {statement}" for row in plan if scans_a_big_table(row.detail)]
    assert not scans, "\n\n".join(scans)


def scans_a_big_table(detail: str) -> bool:
    """SQLite says SCAN for a whole table, SEARCH for a way through an index."""
    return detail.startswith("SCAN") and BIG.search(detail) is not None

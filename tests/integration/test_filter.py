"""What SQL leaves out is what the planner would leave out: the two compared on random facts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from airflow.models.taskinstance import TaskInstance
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_slotgroups.airflow_core.tables import DagModel
from airflow_slotgroups.domain.planner import Plan, why_not_startable, why_too_wide
from airflow_slotgroups.domain.snapshot import Group, Snapshot
from airflow_slotgroups.domain.states import Mode
from airflow_slotgroups.models import SlotRequest
from airflow_slotgroups.store.queue import candidates, waiting_in
from tests.integration.conftest import backends
from tests.integration.support.world import Key, World

DAGS = ("a", "b")
RUNS = ("one", "two")
TASKS = ("x", "y", "z")
LIMITS = st.sampled_from((None, None, 1, 2))
STATES = (
    "scheduled",
    "scheduled",
    "scheduled",
    "queued",
    "running",
    "deferred",
    "awaiting_input",
    "success",
    None,
)

REQUESTS = st.fixed_dictionaries(
    {
        "ti_state": st.sampled_from(STATES),
        "pool": st.sampled_from(("P", "P", "P", "P.running", "Q")),
        "ti_try": st.sampled_from((1, 1, 1, 2)),
        "state": st.sampled_from(("waiting", "waiting", "waiting", "granted", "released", None)),
        "kind": st.sampled_from(("task", "task", "task", "section")),
        "slots": st.integers(1, 4),
        "suspended": st.sampled_from((False, False, True)),
        "forced": st.sampled_from((False, False, True)),
        "put_off": st.sampled_from((None, None, -1, 0, 1)),
        "max_active_tis_per_dag": LIMITS,
        "max_active_tis_per_dagrun": LIMITS,
    }
)
FACTS = st.fixed_dictionaries(
    {
        "paused": st.tuples(st.booleans(), st.just(False)),
        "max_active_tasks": st.tuples(st.integers(1, 4), st.integers(1, 4)),
        "runs": st.lists(st.sampled_from(("running", "running", "queued", "failed")), min_size=4, max_size=4),
        "requests": st.lists(REQUESTS, min_size=12, max_size=12),
        "size": st.sampled_from((0, 2, 3, -1)),
        "mode": st.sampled_from((Mode.ACTIVE, Mode.BYPASS)),
    }
)
KEYS = [Key(dag_id, run_id, task_id) for dag_id in DAGS for run_id in RUNS for task_id in TASKS]


def build(world: World, facts: dict[str, Any]) -> None:
    """Write the facts into the tables."""
    world.database.clean(keep=("dag", "dag_bundle", "dag_run"))
    with world.database.session() as session:
        for number, dag_id in enumerate(DAGS):
            values = {
                "is_paused": facts["paused"][number],
                "max_active_tasks": facts["max_active_tasks"][number],
            }
            session.execute(sa.update(DagModel.__table__).where(DagModel.dag_id == dag_id).values(**values))
        for key, facts_of in zip(KEYS, facts["requests"], strict=True):
            session.execute(sa.insert(TaskInstance.__table__), ti_row(world, key, facts_of))
            if facts_of["state"]:
                session.execute(sa.insert(SlotRequest), request_row(world, key, facts_of))
        places = [(dag_id, run_id) for dag_id in DAGS for run_id in RUNS]
        for (dag_id, run_id), state in zip(places, facts["runs"], strict=True):
            session.execute(
                sa.text("UPDATE dag_run SET state = :state WHERE dag_id = :dag AND run_id = :run"),
                {"state": state, "dag": dag_id, "run": run_id},
            )


def ti_row(world: World, key: Key, facts: dict[str, Any]) -> dict[str, Any]:
    """A task instance."""
    return {
        **key._asdict(),
        "pool": facts["pool"],
        "state": facts["ti_state"],
        "try_number": facts["ti_try"],
        "pool_slots": facts["slots"],
        "max_tries": 1,
        "queue": "default",
    }


def request_row(world: World, key: Key, facts: dict[str, Any]) -> dict[str, Any]:
    """A request; columns that decide nothing have one value for all."""
    now = world.clock.now
    put_off = facts["put_off"]
    live = facts["state"] in ("waiting", "granted")
    same = (
        "state",
        "kind",
        "slots",
        "suspended",
        "forced",
        "max_active_tis_per_dag",
        "max_active_tis_per_dagrun",
    )
    return {
        **key._asdict(),
        **{name: facts[name] for name in same},
        "pool": "P",
        "try_number": 1,
        "priority": 1,
        "order_major": -1,
        "order_minor": KEYS.index(key),
        "live": True if live else None,
        "passes": 0,
        "was_queued": False,
        "enqueued_at": now,
        "arrived_at": now,
        "not_before": None if put_off is None else now + timedelta(seconds=put_off),
        "granted_at": None if facts["state"] == "waiting" else now,
    }


@pytest.fixture
def places(world: World) -> World:
    """DAGs and runs, made once."""
    for dag_id in DAGS:
        world.dag(dag_id)
        for run_id in RUNS:
            world.run(dag_id, run_id)
    return world


@pytest.mark.parametrize("database", backends("sqlite", "postgresql"), indirect=True)
def test_sql_and_planner_agree_on_who_can_start(places: World) -> None:
    agreed = {"both": 0, "left out": 0}

    @settings(
        max_examples=300 if places.database.backend == "sqlite" else 100,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(facts=FACTS)
    def compare(facts: dict[str, Any]) -> None:
        build(places, facts)
        group = Group("P", facts["size"], mode=facts["mode"])
        now = places.clock.now
        with places.database.session() as session:
            by_sql = {task.waiter.id for task in candidates(session, group, now, 100, None, None)}
            everybody = [task.waiter for task in waiting_in(session, "P", 100)]
        by_planner = {
            waiter.id
            for waiter in everybody
            if why_not_startable(waiter, Snapshot(group, 0, (waiter,), now), Plan(free=None)) is None
            and (waiter.forced or why_too_wide(waiter, group) is None)
        }
        assert by_sql == by_planner
        agreed["both"] += len(by_sql)
        agreed["left out"] += len(everybody) - len(by_sql)

    compare()
    assert all(agreed.values()), "a comparison in which one side never occurs proves nothing"

"""What once broke a promise: one odd task, a retry of a forced one, an edit in between, a long queue."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from airflow.models.dag import DagModel
from airflow.models.dag_version import DagVersion
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core import locks
from airflow_slotgroups.coordinator.steps import Desk, Groups, Step
from airflow_slotgroups.coordinator.sweep import Heartbeat
from airflow_slotgroups.domain.errors import InvalidNameError, InvalidValueError
from airflow_slotgroups.domain.states import Mode
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.models import SlotGroup
from airflow_slotgroups.services import groups, health, requests
from airflow_slotgroups.services.queue import queue_of
from airflow_slotgroups.store.coordinators import Identity
from airflow_slotgroups.store.decisions import BATCH, MOST_GRANTS
from tests.integration.conftest import backends
from tests.integration.support.dags import make_dag, write_dags
from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import WHO, Key, World

POSTGRES = pytest.mark.parametrize("database", backends("postgresql"), indirect=True)
MARIADB = pytest.mark.parametrize("database", backends("mariadb"), indirect=True)


@pytest.fixture
def w(world: World) -> World:
    world.dag("dag", max_active_tasks=100_000)
    world.run("dag", "run")
    return world


@pytest.fixture
def scheduler(w: World) -> FakeScheduler:
    return FakeScheduler(w.database, w.clock)


def forced_beside_a_holder(w: World, scheduler: FakeScheduler) -> Key:
    """A group of one slot that is held, and a task that was forced in beside the holder."""
    w.group("P", 1)
    holder = w.task("holder", "P")
    w.round()
    scheduler.run_to(holder)
    forced = w.task("forced", "P")
    w.round()
    requests.force_start("P", [Which(task_id="forced")], who=WHO)
    w.round()
    return forced


@contextmanager
def rival_of(w: World, last: sa.Update) -> Iterator[Callable[[], Future[Any]]]:
    """Lock all task instances on another connection, which has more to lose; a call makes it do its last."""
    with w.database.engine.connect() as rival, ThreadPoolExecutor(1) as beside:
        rival.execute(sa.update(TaskInstance.__table__).values(hostname="theirs"))
        yield lambda: beside.submit(rival.execute, last)


@MARIADB
@pytest.mark.parametrize("name", ["Warehouse", "warehouse ", "wärehouse"])
@pytest.mark.parametrize("state", ["scheduled", "running"])
def test_a_name_that_the_database_takes_for_a_group_stops_nobody(w: World, name: str, state: str) -> None:
    w.group("warehouse", 2)
    w.group("other", 2)
    w.task("odd", name, state=state)
    w.task("b", "other")
    w.round()
    assert "b" in w.granted()


@MARIADB
def test_the_pool_of_forced_starts_is_no_group_in_whatever_case(w: World) -> None:
    with pytest.raises(InvalidNameError, match="forced"):
        w.group("Slotgroups.Unlimited", 1)


@pytest.mark.parametrize(
    "seconds", [timedelta(days=3_000_000).total_seconds(), -8e13, float("nan"), float("-inf")]
)
def test_a_max_wait_that_no_date_can_hold_stops_nobody(w: World, seconds: float) -> None:
    w.group("P", 2)
    w.group("other", 2)
    w.task("a", "P")
    w.task("b", "other")
    config = {"slotgroups": {"max_wait_seconds": seconds}}
    with w.database.session() as session:
        statement = sa.text("UPDATE task_instance SET executor_config = :c WHERE task_id = 'a'")
        session.execute(statement, {"c": pickle.dumps(config)})
    w.round()
    assert w.granted() == ["a", "b"]


def test_a_dag_that_can_not_be_read_stops_no_other(w: World) -> None:
    w.group("P", 2)
    w.group("other", 2)
    with w.database.session() as session:
        session.execute(sa.update(DagModel).values(has_task_concurrency_limits=True))
        version = DagVersion(dag_id="dag", version_number=99, bundle_name="testing")
        session.add(version)
        session.flush()
        row = {
            "dag_id": "dag",
            "dag_version_id": version.id,
            "id": version.id,
            "data": {"__version": 99, "dag": {}},
            "dag_hash": "x",
            "created_at": w.clock.now,
            "last_updated": w.clock.now,
        }
        session.execute(sa.insert(SerializedDagModel.__table__).values(**row))
    w.task("a", "P")
    w.task("b", "other")
    w.round()
    assert "b" in w.granted()


def test_a_limit_that_is_edited_while_tasks_wait_holds_for_them(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Airflow keeps a DAG that it has read for so long; the test does not wait for it.
    monkeypatch.setattr(w.cycle.desk.limits.dags, "_revalidation_interval", -1)
    w.group("P", 9)
    keys = [Key("dag", "run", "same", number) for number in range(4)]

    def edit(most: int | None) -> None:
        task = {"pool": "P", "max_active_tis_per_dag": most}
        write_dags(w.database, [make_dag("dag", {"same": task})])

    edit(1)
    w.tasks(keys, "P")
    w.rounds(2)
    assert len(w.granted()) == 1
    for most, expected in ((3, 3), (None, 4)):
        edit(most)
        w.rounds(2)
        assert len(w.granted()) == expected


def test_a_step_that_fails_leaves_the_others_to_be_done(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    w.group("P", 1)
    w.task("a", "P")
    w.round()
    w.task("b", "P")

    def fail(*_args: object) -> None:
        raise RuntimeError("a fault of one step")

    monkeypatch.setattr("airflow_slotgroups.coordinator.steps.find_expired", fail)
    w.set_ti(Key("dag", "run", "a"), state="success")
    result = w.cycle.run()
    assert result.errors == {"fail_them": "RuntimeError: a fault of one step"}
    assert w.granted() == ["b"]


@MARIADB
def test_a_deadlock_ends_the_cycle(w: World) -> None:
    """It undoes the whole transaction, its locks too: what comes after would be done without them."""
    w.group("P", 1)
    w.tasks([Key("dag", "run", f"t{number}") for number in range(50)], "elsewhere", state="success")
    tried: list[str] = []
    group = sa.update(SlotGroup).values(notice="ours")
    with rival_of(w, sa.update(SlotGroup).values(notice="theirs")) as wants_the_group:

        def take_the_group(_d: Desk, session: Session, _g: Groups, _f: object, _n: object) -> None:
            tried.append("group")
            session.execute(group)
            wants_the_group()

        def want_a_task(_d: Desk, session: Session, _g: Groups, _f: object, _n: object) -> None:
            tried.append("task")
            session.execute(sa.update(TaskInstance.__table__).values(hostname="ours"))

        steps = [Step(lambda *_: True, take_the_group), Step(lambda *_: True, want_a_task)]
        with pytest.raises(DBAPIError) as raised:
            w.cycle.put_right(["P"], steps)
    assert locks.is_locked(raised.value), "the loop does not try again at once"
    assert tried == ["group", "task"]
    assert not w.cycle.apart


@POSTGRES
def test_a_retry_of_a_forced_task_that_was_too_fast_is_counted(w: World, scheduler: FakeScheduler) -> None:
    forced = forced_beside_a_holder(w, scheduler)
    scheduler.run_to(forced)
    w.round()
    scheduler.do("retry", forced)
    scheduler.do("due", forced)
    scheduler.critical_section()
    scheduler.do("start", forced)
    w.rounds(2)
    assert groups.get_group("P").used == 2
    assert w.state_of(forced)[-1] == "granted"


@POSTGRES
def test_a_task_that_names_the_pool_of_forced_starts_is_told_of(w: World, scheduler: FakeScheduler) -> None:
    forced_beside_a_holder(w, scheduler)
    w.task("odd", "slotgroups.unlimited", state="running")
    assert [p.where for p in health.check() if p.code == "unlimited"] == ["slotgroups.unlimited"]


@POSTGRES
def test_dissolving_waits_for_a_forced_task_that_somebody_has_locked(
    w: World, scheduler: FakeScheduler
) -> None:
    forced = forced_beside_a_holder(w, scheduler)
    scheduler.run_to(forced)
    w.round()
    with w.database.engine.connect() as other:
        other.execute(sa.text("SELECT 1 FROM task_instance WHERE task_id = 'forced' FOR UPDATE"))
        assert groups.dissolve("P", who=WHO) is False
        other.rollback()
    w.rounds(2)
    assert w.pool_of(forced) == "P"


@POSTGRES
@pytest.mark.parametrize("locked", [1, 2, 5])
def test_locked_heads_leave_no_slot_idle(w: World, locked: int) -> None:
    w.group("P", 1)
    for number in range(locked + 2):
        w.task(f"t{number}", "P")
    with w.database.engine.connect() as other:
        first = sa.text("SELECT 1 FROM task_instance WHERE task_id < :behind FOR UPDATE")
        other.execute(first, {"behind": f"t{locked}"})
        w.round()
        assert w.granted() == [f"t{locked}"]
        other.rollback()


@POSTGRES
@pytest.mark.timeout(30)
def test_a_coordinator_whose_row_is_locked_goes_on(w: World) -> None:
    """It reports with the next heartbeat; nobody waits for a report."""
    who = Identity(
        id="me", hostname="host", pid=1, version="1", started_at=w.clock.now, scheduler_job_id=None
    )
    Heartbeat(w.database.session, who, w.clock).cycle_ended(0.1, None)
    later = Heartbeat(w.database.session, who, w.clock)
    with w.database.engine.connect() as other:
        other.execute(sa.text("SELECT 1 FROM slot_coordinator FOR UPDATE"))
        later.cycle_ended(0.2, None)
        other.rollback()
    later.due_at = 0
    later.cycle_ended(0.3, None)
    with w.database.session() as session:
        assert session.scalar(sa.text("SELECT cycle_seconds FROM slot_coordinator")) == 0.3


@POSTGRES
def test_a_locked_request_of_one_group_holds_up_no_other(w: World) -> None:
    w.group("P", 1)
    w.group("other", 1)
    w.task("a", "P")
    slipped = w.task("b", "P")
    w.rounds(2)
    with w.database.engine.connect() as somebody:
        somebody.execute(sa.text("SELECT 1 FROM slot_request WHERE task_id = 'b' FOR UPDATE"))
        w.set_ti(slipped, state="queued")
        w.task("c", "other")
        w.round()
        assert "c" in w.granted()
        somebody.rollback()


def test_a_size_that_is_set_overrules_an_edit_before_it(w: World) -> None:
    w.group("P", 4)
    with w.database.session() as session:
        session.execute(sa.text("UPDATE slot_pool SET slots = 5 WHERE pool = 'P'"))
    w.group("P", 10)
    w.rounds(2)
    assert groups.get_group("P").slots == 10


@pytest.mark.parametrize("size", [2, 0])
def test_a_grant_for_which_there_is_no_room_any_more_waits_again(w: World, size: int) -> None:
    """Not queued yet, and the group has shrunk: Airflow would never start it."""
    w.group("P", 4)
    wide = w.task("wide", "P", pool_slots=4)
    w.round()
    assert w.state_of(wide) == ["granted"]
    w.group("P", size)
    w.rounds(2)
    assert w.state_of(wide) == ["waiting"]
    assert [str(entry.reason) for entry in queue_of("P")] == [f"can never run: needs 4, pool has {size}"]


def test_a_long_queue_is_let_in_part_by_part(w: World) -> None:
    w.group("P", 1)
    number = MOST_GRANTS + 2 * BATCH
    w.tasks([Key("dag", "run", f"t{index}") for index in range(number)], "P")
    w.rounds(2)
    groups.set_mode("P", Mode.BYPASS, who=WHO)
    w.round()
    assert MOST_GRANTS <= len(w.granted()) < MOST_GRANTS + BATCH
    w.rounds(2)
    assert len(w.granted()) == number


@pytest.mark.parametrize("change", [groups.GroupChange(slots=2**31), groups.GroupChange(max_passes=2**31)])
def test_a_number_that_no_column_can_hold_is_refused(w: World, change: groups.GroupChange) -> None:
    w.group("P", 1)
    with pytest.raises(InvalidValueError, match="give at most 2147483647"):
        groups.set_group("P", change, who=WHO)

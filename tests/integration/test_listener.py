"""The fast path of release, in the transactions of Airflow's own processes (S27, S31, S64)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.sqlalchemy import prohibit_commit
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from airflow_slotgroups.airflow_core import locks
from airflow_slotgroups.domain.states import Kind
from airflow_slotgroups.listeners.release import ReleaseListener
from airflow_slotgroups.models import SlotRequest
from airflow_slotgroups.store.groups import lock_free_groups
from airflow_slotgroups.store.requests import lock_requests
from tests.integration.conftest import backends
from tests.integration.support.databases import Database
from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import Key, World, is_key

POSTGRES = pytest.mark.parametrize("database", backends("postgresql"), indirect=True)
AT_ONCE = 0.5
"""Seconds: far less than any time-out for a lock, far more than the few statements take."""


@pytest.fixture
def world(world: World) -> World:
    world.dag("dag")
    world.run("dag", "run")
    return world


@pytest.fixture
def scheduler(world: World) -> FakeScheduler:
    return FakeScheduler(world.database, world.clock)


@pytest.fixture
def impatient(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cycle that had to wait for a lock would fail."""
    monkeypatch.setattr(locks.limit_waiting, "__defaults__", (1,))
    yield
    database.engine.dispose()


def full_group(world: World, scheduler: FakeScheduler) -> tuple[Key, Key]:
    """One runs, one waits."""
    world.group("P", 1)
    holder, waiter = world.task("holder", "P"), world.task("waiter", "P")
    world.round()
    scheduler.run_to(holder)
    world.round()
    assert world.granted() == ["holder"]
    return holder, waiter


def load(session: Session, key: Key) -> TaskInstance:
    return session.scalars(sa.select(TaskInstance).where(is_key(key))).one()


def fail(session: Session, key: Key) -> None:
    """What the scheduler and the API server do: write the state, tell the listeners, commit later."""
    ti = load(session, key)
    ti.state = "failed"
    ReleaseListener().on_task_instance_failed(None, ti, "error")


@POSTGRES
@pytest.mark.parametrize("hook", ["success", "failed", "skipped"])
def test_slots_come_back_with_the_transaction_that_ends_the_task(
    world: World, scheduler: FakeScheduler, hook: str
) -> None:
    holder, _ = full_group(world, scheduler)
    with world.database.session() as session:
        ti = load(session, holder)
        ti.state = hook
        listener: Any = ReleaseListener()
        if hook == "failed":
            listener.on_task_instance_failed(None, ti, None)
        else:
            getattr(listener, f"on_task_instance_{hook}")(None, ti)
        assert world.state_of(holder) == ["granted"]

    assert world.state_of(holder) == ["released"]
    world.cycle.run()
    assert world.granted() == ["waiter"]


@POSTGRES
def test_a_transaction_that_fails_gives_nothing_back(world: World, scheduler: FakeScheduler) -> None:
    holder, _ = full_group(world, scheduler)

    def fails() -> None:
        with world.database.session() as session:
            fail(session, holder)
            raise RuntimeError("the scheduler fails")

    with pytest.raises(RuntimeError):
        fails()
    world.round()
    assert world.granted() == ["holder"]


@pytest.mark.parametrize("database", backends("sqlite", "mariadb"), indirect=True)
def test_without_row_locks_it_is_left_to_the_coordinator(world: World, scheduler: FakeScheduler) -> None:
    holder, _ = full_group(world, scheduler)
    with world.database.session() as session:
        fail(session, holder)

    assert world.state_of(holder) == ["granted"]
    world.round()
    assert world.granted() == ["waiter"]


@POSTGRES
def test_a_late_word_of_an_old_try_ends_nothing(world: World, scheduler: FakeScheduler) -> None:
    """S31: and the same word twice is once."""
    holder, waiter = full_group(world, scheduler)
    with world.database.session() as session:
        for _ in range(2):
            fail(session, holder)
    world.round()
    scheduler.do("clear", holder)
    scheduler.do("due", holder)
    scheduler.run_to(waiter, "success")
    world.rounds(2)
    assert world.granted() == ["holder"]

    with world.database.session() as session:
        ti = load(session, holder)
        set_committed_value(ti, "try_number", ti.try_number - 1)
        ReleaseListener().on_task_instance_success(None, ti)
    assert world.granted() == ["holder"]


@POSTGRES
def test_it_does_not_commit_where_the_scheduler_forbids_it(world: World, scheduler: FakeScheduler) -> None:
    holder, _ = full_group(world, scheduler)
    with world.database.session() as session, prohibit_commit(session) as guard:
        fail(session, holder)
        guard.commit()

    assert world.state_of(holder) == ["released"]


@POSTGRES
@pytest.mark.usefixtures("impatient")
def test_a_transaction_that_stays_open_holds_up_no_cycle(world: World, scheduler: FakeScheduler) -> None:
    """S64: the listener's rows stay locked, and the cycle leaves them out; others are served meanwhile."""
    holder, _ = full_group(world, scheduler)
    world.group("Q", 1)
    other = world.task("other", "Q")
    with world.database.session() as session:
        fail(session, holder)
        session.flush()
        started = time.monotonic()
        for _ in range(3):
            world.round()
        assert time.monotonic() - started < 10 * AT_ONCE
        assert world.state_of(other) == ["granted"]
        assert world.state_of(holder) == ["granted"]

    world.round()
    assert world.state_of(holder) == ["released"]
    assert sorted(world.granted()) == ["other", "waiter"]


@POSTGRES
def test_the_locks_of_a_cycle_hold_up_no_scheduler(
    world: World, scheduler: FakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    """S64: our rows are locked for long; the hook returns at once, raises nothing, and the caller goes on."""
    caplog.set_level(logging.WARNING, logger="airflow_slotgroups")
    holder, _ = full_group(world, scheduler)
    [request] = world.requests(holder)
    with world.database.session() as ours:
        lock_free_groups(ours, ["P"])
        assert lock_requests(ours, [request.id]) == [request.id]
        with world.database.session() as session:
            started = time.monotonic()
            fail(session, holder)
            assert time.monotonic() - started < AT_ONCE
        assert world.ti(holder).state == "failed"
        assert world.state_of(holder) == ["granted"]

    assert caplog.records == []
    world.round()
    assert world.granted() == ["waiter"]


@POSTGRES
@pytest.mark.timeout(30)
def test_a_table_that_is_locked_as_a_whole_holds_up_no_scheduler(
    world: World, scheduler: FakeScheduler
) -> None:
    """S64, as by a migration or VACUUM FULL; and the scheduler waits for its own locks as before."""
    holder, _ = full_group(world, scheduler)
    with world.database.session() as session:
        session.execute(sa.text("SET LOCAL lock_timeout = '7s'"))
        with world.database.engine.connect() as other:
            other.execute(sa.text("LOCK TABLE slot_request IN ACCESS EXCLUSIVE MODE"))
            started = time.monotonic()
            fail(session, holder)
            assert time.monotonic() - started < AT_ONCE
            other.rollback()
        assert session.scalar(sa.text("SELECT current_setting('lock_timeout')")) == "7s"
        fail(session, holder)
        assert session.scalar(sa.text("SELECT current_setting('lock_timeout')")) == "7s"
    assert world.ti(holder).state == "failed"
    assert world.state_of(holder) == ["released"]


@POSTGRES
def test_a_fault_of_ours_leaves_the_transaction_whole(
    world: World, scheduler: FakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    """As between an upgrade of the package and `airflow db migrate`."""
    holder, _ = full_group(world, scheduler)
    with world.database.engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE slot_request RENAME TO away"))
    try:
        with world.database.session() as session:
            fail(session, holder)
    finally:
        with world.database.engine.begin() as connection:
            connection.execute(sa.text("ALTER TABLE away RENAME TO slot_request"))

    assert world.ti(holder).state == "failed"
    assert [record.levelname for record in caplog.records if "slotgroups" in record.name] == ["WARNING"]
    world.round()
    assert world.granted() == ["waiter"]


def test_in_a_task_process_there_is_nothing_to_do() -> None:
    """There it is a plain object of the Task SDK, and no database."""
    ti = SimpleNamespace(dag_id="dag", run_id="run", task_id="t", map_index=-1, try_number=1)
    ReleaseListener().on_task_instance_success(None, ti)
    ReleaseListener().on_task_instance_failed(None, ti, None)
    ReleaseListener().on_dag_run_failed(ti, "timed_out")


# Runs


def hold(world: World, key: Key) -> None:
    """Make a section's hold of a granted request."""
    with world.database.session() as session:
        session.execute(
            sa.update(SlotRequest).where(SlotRequest.task_id == key.task_id).values(kind=Kind.SECTION.value)
        )


@POSTGRES
def test_a_run_that_times_out_ends_its_holds_and_not_its_running_tasks(
    world: World, scheduler: FakeScheduler
) -> None:
    world.group("P", 2)
    section, task = world.task("section", "P"), world.task("task", "P")
    world.round()
    hold(world, section)
    with world.database.session() as session:
        ReleaseListener().on_dag_run_failed(session.scalars(sa.select(DagRun)).one(), "timed_out")

    assert (world.state_of(section), world.state_of(task)) == (["released"], ["granted"])


@POSTGRES
def test_the_slots_of_a_section_that_a_listener_ended_can_be_used_at_once(
    world: World, scheduler: FakeScheduler
) -> None:
    """The running pool did not have them; the next cycle, urgent or not, gives it them with the grant."""
    world.group("P", 1)
    section = world.task("section", "P")
    world.round()
    hold(world, section)
    world.dag("other")
    world.run("other", "run")
    waiter = world.task("waiter", "P", dag_id="other")
    world.round()
    assert (world.pools("P"), world.state_of(waiter)) == ((0, 0), ["waiting"])
    scheduler.do("fail_run", "dag", "run")
    with world.database.session() as session:
        run = session.scalars(sa.select(DagRun).where(DagRun.dag_id == "dag")).one()
        ReleaseListener().on_dag_run_failed(run, "by hand")

    world.cycle.run(thorough=False)
    assert (world.pools("P"), world.state_of(waiter)) == ((0, 1), ["granted"])


def test_dagrun_timeout_frees_a_running_and_a_deferred_holder(world: World, scheduler: FakeScheduler) -> None:
    """S27: nothing of the run holds a slot after the next cycle."""
    world.group("P", 2)
    running, deferred = world.task("running", "P"), world.task("deferred", "P")
    world.round()
    for key in (running, deferred):
        scheduler.run_to(key)
    scheduler.do("defer", deferred)
    world.dag("other")
    world.run("other", "run")
    for number in range(2):
        world.task(f"next{number}", "P", dag_id="other")
    world.round()
    assert world.granted() == ["running", "deferred"]

    scheduler.do("fail_run", "dag", "run")
    world.round()
    assert world.granted() == ["next0", "next1"]

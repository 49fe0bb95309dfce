"""Never over, never leaked: S21 to S23, S30, S34 to S36, S75."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from collections.abc import Iterator, Sequence

import pytest

from devtools.demo_summary import Execution, most_used

from ..board import side_by_side
from ..world import World, moment, names, only

pytestmark = pytest.mark.acceptance


@side_by_side
def test_s21_wide_tasks_share_the_slots(world: World) -> None:
    """S21: 24 slots and demands of 12, 12 and 16: both twelves together, then the sixteen; none fails."""
    world.set_group("s21", 24)
    world.run("s21")
    world.finish("s21")
    first, second, third = world.grants("s21")
    assert names([first, second, third]) == ["first", "second", "third"]
    assert first.granted_at == second.granted_at < third.granted_at
    world.assert_never_over("s21", 24)
    world.assert_idle("s21")


@side_by_side
def test_s22_a_task_wider_than_the_group_is_in_nobodys_way(world: World) -> None:
    """S22: four slots asked of two: shown as such, those behind it go, and it goes when the group has grown."""
    world.set_group("s22", 2)
    world.run("s22")
    world.wait_group("s22", used=0, waiting=1)
    wide = only(world.waiters("s22"), task_id="wide")
    assert (wide["reason_code"], wide["reason"]) == ("too_wide", "can never run: needs 4, pool has 2"), wide
    assert sorted(names(world.grants("s22"))) == ["n0", "n1", "n2"]
    world.set_group("s22", 4)
    world.finish("s22")
    world.assert_never_over("s22", 4)
    world.assert_idle("s22")


@side_by_side
def test_s23_shrinking_kills_nobody_and_is_paid_back_first(world: World) -> None:
    """S23: five holders and a size of one: over by four, nobody let in until use is below one."""
    world.set_group("s23_shrink", 5)
    world.run("s23_shrink")
    world.wait_group("s23_shrink", used=5, waiting=2)
    world.wait(lambda: list(world.states("s23_shrink").values()).count("running") == 5, "five that run")
    world.set_group("s23_shrink", 1)
    over = world.group("s23_shrink")
    assert (over["used"], over["overdraft"], over["free"]) == (5, 4, 0), f"shown as {over}"
    world.open("s23_four")
    world.wait_group("s23_shrink", used=1, overdraft=0)

    def nobody_let_in() -> None:
        assert len(world.grants("s23_shrink")) == 5, "somebody was let in before use was below the size"

    world.watch(nobody_let_in)
    world.open("s23_last")
    world.finish("s23_shrink")
    tries = {row["try_number"] for row in world.tasks("s23_shrink")}
    assert tries == {1}, f"holders were killed and tried again: {tries}"
    small = [one for one in world.executions("s23_shrink") if one.start > moment(last_hold(world))]
    assert len(small) == 2, f"after the last holder {small} ran"
    assert most_used(small) == 1, f"more than one at a time after shrinking: {small}"
    world.assert_never_over("s23_shrink", 5)
    world.assert_idle("s23_shrink")


def last_hold(world: World) -> str:
    """The end of the last holder."""
    return str(only(world.tasks("s23_shrink"), task_id="last")["end_date"])


@side_by_side
def test_s23_growing_lets_waiters_in_at_once(world: World) -> None:
    """S23: from two to five with ten waiters: three more in one decision; the size is set by the real command."""
    world.set_group("s23_grow", 2)
    world.run("s23_grow")
    world.wait_group("s23_grow", used=2, waiting=10)
    world.cli("slotgroups", "set", "s23_grow", "5")
    world.wait_group("s23_grow", used=5, waiting=7)
    new = [grant.granted_at for grant in world.grants("s23_grow")][2:]
    assert len(new) == 3, f"{len(new)} were let in after growing"
    assert len(set(new)) == 1, f"three in one decision were wanted: {new}"
    world.set_run_state("s23_grow", "failed")
    world.open("s23_grow")
    world.assert_idle("s23_grow")
    world.assert_never_over("s23_grow", 5)


@side_by_side
def test_s30_trivial_tasks_never_wait(world: World) -> None:
    """S30: EmptyOperators in a full group end at once, and leave no request."""
    world.set_group("s30", 1)
    world.run("s30_holder")
    world.wait_group("s30", used=1)
    world.run("s30")
    world.finish("s30")
    assert world.run_state("s30_holder") is None, "the group was not full"
    world.open("s30")
    world.finish("s30_holder")
    assert [row["dag_id"] for row in world.requests("s30")] == ["s30_holder"]
    world.assert_idle("s30")


@side_by_side
def test_s34_deferral_keeps_the_slot(world: World) -> None:
    """S34: sixteen deferrable operators on one slot run one at a time, from first start to last end."""
    world.set_group("s34", 1)
    world.run("s34")
    seen: set[str | None] = set()

    def ended() -> str | None:
        seen.update(world.states("s34").values())
        return world.run_state("s34")

    world.wait(ended, "the end of s34", timeout=400)
    world.finish("s34")
    assert "deferred" in seen, f"nobody was seen deferred: {seen}"
    ran = [one for one in world.executions("s34") if (one.end - one.start).total_seconds() > 1.5]
    assert len(ran) >= 16, f"the times from start to end leave the deferral out: {world.executions('s34')}"
    world.assert_never_over("s34", 1)
    world.assert_idle("s34")


@side_by_side
def test_s35_a_holder_back_from_its_deferral_goes_first(world: World) -> None:
    """S35: the holder is scheduled after its own deferral while 30 wait: nobody else is let in before it ended.

    Its DAG is paused for a while, which keeps it in that state for as long as the test looks.
    """
    world.set_group("s35", 1)
    world.run("s35_holder")
    world.wait(lambda: world.states("s35_holder").get("deferring") == "deferred", "the holder's deferral")
    world.run("s35_waiters")
    world.wait_group("s35", used=1, waiting=30)
    world.airflow.pause("s35_holder")
    world.open("s35")
    world.wait(lambda: world.states("s35_holder")["deferring"] == "scheduled", "the holder to come back")

    def still_held() -> None:
        group = world.group("s35")
        assert (group["used"], group["waiting"]) == (1, 30), f"somebody was let in: {group}"

    world.watch(still_held)
    world.airflow.unpause("s35_holder")
    world.finish("s35_holder")
    world.wait(lambda: len(world.grants("s35")) >= 3, "waiters to follow")
    world.set_run_state("s35_waiters", "failed")
    world.assert_idle("s35")
    end = moment(only(world.tasks("s35_holder"), task_id="deferring")["end_date"])
    assert all(grant.granted_at >= end for grant in world.grants("s35")[1:]), "a waiter was let in too early"
    world.assert_never_over("s35", 1)


@side_by_side
def test_s36_a_dag_that_names_the_running_pool(world: World) -> None:
    """S36: with room it runs, is counted on sight and shown as outside; without room it queues like all others."""
    world.set_group("s36", 1)
    with_room = run_outside(world)
    world.run("s36_queue")
    world.wait_group("s36", used=1, waiting=1)
    world.run("s36_outside", run_id="no_room")
    world.wait_group("s36", used=1, waiting=2)
    queued = [(row["dag_id"], row["run_id"]) for row in world.waiters("s36")]
    assert queued == [("s36_queue", "run"), ("s36_outside", "no_room")], f"the queue is {queued}"
    assert [row["pool"] for row in world.tasks("s36_outside", "no_room")] == ["s36"], "it was not sent home"
    world.open("s36", f"s36_{with_room}", "s36_no_room")
    world.finish("s36_queue")
    world.finish("s36_outside", run_id=with_room)
    world.finish("s36_outside", run_id="no_room")
    world.assert_never_over("s36", 1)
    world.assert_idle("s36")


def run_outside(world: World) -> str:
    """Run a task in the running pool that is started before a cycle can send it home; its run's id.

    The coordinator is stopped for a moment: it is quicker than the scheduler, as a rule.
    """
    run_id = "with_room"
    with coordinators_stopped(world):
        world.run("s36_outside", run_id=run_id)
        started = lambda: set(world.states("s36_outside", run_id).values()) & {"queued", "running"}  # noqa: E731
        world.wait(started, "the task to be started in the running pool")
    world.wait(lambda: world.holders("s36"), "the task to be counted on sight")
    holder = only(world.holders("s36"))
    assert holder["reason"] == "runs outside the queue, and is counted", holder
    return run_id


@contextlib.contextmanager
def coordinators_stopped(world: World) -> Iterator[None]:
    """Stop the processes that let tasks in, and let them go on; not while they keep others from the database."""
    pids = [row["pid"] for row in world.coordinators()]

    def stopped() -> bool:
        send(pids, signal.SIGSTOP)
        if can_be_written(world):
            return True
        send(pids, signal.SIGCONT)
        return False

    try:
        world.wait(stopped, "coordinators to stop outside of a transaction")
        yield
    finally:
        send(pids, signal.SIGCONT)


def send(pids: Sequence[int], number: signal.Signals) -> None:
    """Send a signal to each."""
    for pid in pids:
        os.kill(pid, number)


def can_be_written(world: World) -> bool:
    """Tell whether nobody who stands still has locked the database as a whole: SQLite has one lock for all."""
    if world.locks_rows:
        return True
    file = world.airflow.engine().url.database
    with contextlib.closing(sqlite3.connect(str(file), timeout=1, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


@side_by_side
def test_s75_a_tasks_own_limit_blocks_nobody_else(world: World) -> None:
    """S75: max_active_tis_per_dag=1 on a mapped task of four, four slots: one at a time, others go beside it."""
    world.set_group("s75", 4)
    world.run("s75", "s75_other")
    reasons: set[str] = set()

    def ended() -> bool:
        reasons.update(row["reason_code"] for row in world.waiters("s75") if row["dag_id"] == "s75")
        return bool(world.run_state("s75") and world.run_state("s75_other"))

    world.wait(ended, "the end of s75 and s75_other")
    world.finish("s75", "s75_other")
    limited: list[Execution] = world.executions("s75", "s75")
    assert most_used(limited) == 1, f"max_active_tis_per_dag=1 was broken: {limited}"
    assert "max_active_tis_per_dag" in reasons, f"the queue never named the limit: {reasons}"
    last = max(one.end for one in limited)
    others = world.executions("s75", "s75_other")
    assert all(one.end < last for one in others), "the limited task kept others waiting"
    world.assert_never_over("s75", 4)
    world.assert_idle("s75")

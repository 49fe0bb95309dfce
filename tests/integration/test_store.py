"""What the store and the services do to a group, on every database (scenarios S22, S23, S29, S33, S36, S69 to S76)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from airflow.models.log import Log
from airflow.models.pool import Pool

from airflow_slotgroups.coordinator.cycle import Cycle
from airflow_slotgroups.coordinator.steps import STEPS
from airflow_slotgroups.domain.errors import (
    AlreadyGroupError,
    DissolvingError,
    GroupInUseError,
    InvalidNameError,
    InvalidValueError,
    OrdinaryPoolError,
    PoolNameTakenError,
    UnknownGroupError,
    UnknownPoolError,
)
from airflow_slotgroups.domain.names import MAX_NAME_LENGTH, UNLIMITED_POOL
from airflow_slotgroups.domain.order import MAX_AGEING_SECONDS
from airflow_slotgroups.domain.states import RequestState, Strategy
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.models import SlotGroup, SlotGroupChange, SlotRequest
from airflow_slotgroups.services import groups, health, requests
from airflow_slotgroups.services.groups import GroupChange
from airflow_slotgroups.services.queue import queue_of
from tests.integration.conftest import backends
from tests.integration.support.faults import watched
from tests.integration.support.rules import look, when_settled
from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import WHO, Key, World


@pytest.fixture
def scheduler(world: World) -> FakeScheduler:
    """Airflow's moves, with a DAG and a run to make them on."""
    world.dag("dag")
    world.run("dag", "run")
    return FakeScheduler(world.database, world.clock)


def settled(world: World) -> None:
    """A round leaves nothing that the design forbids."""
    world.round()
    assert list(when_settled(look(world.database, world.clock.now))) == []


# --- The queue.


def test_waiters_go_by_priority_then_arrival(world: World, scheduler: FakeScheduler) -> None:
    """S01 and S02."""
    world.group("P", 3)
    for number in range(1, 7):
        world.task(f"t{number}", "P", priority_weight=number)

    world.round()
    assert set(world.granted()) == {"t6", "t5", "t4"}
    for name in ("t6", "t5", "t4"):
        scheduler.run_to(Key("dag", "run", name), "success")
    world.round()
    assert set(world.granted()) == {"t3", "t2", "t1"}
    settled(world)


def test_every_database_gives_the_same_order_and_the_same_answers(
    world: World, scheduler: FakeScheduler
) -> None:
    """S69: priorities, ties by arrival and by map index, ageing, a task too wide, one suspended, one paused."""
    world.dag("paused", paused=True)
    world.run("paused", "run")
    world.group("Ordnung", 2)
    world.tasks(
        [Key("dag", "run", "mapped", index) for index in (2, 0, 1)], "Ordnung", scheduled_dttm=world.clock.now
    )
    world.task("wide", "Ordnung", pool_slots=3, priority_weight=7)
    world.task("Zebra", "Ordnung", priority_weight=2)
    world.task("apple", "Ordnung", priority_weight=2)
    world.task("none", "Ordnung", priority_weight=None)
    world.task("asleep", "Ordnung", dag_id="paused", priority_weight=9)
    world.task("fat", "Ordnung", pool_slots=2, priority_weight=-2)
    world.round()

    def story() -> list[tuple[str, int, str]]:
        return [(e.task_id, e.map_index, e.reason_code) for e in queue_of("Ordnung") if e.position]

    assert sorted(world.granted()) == ["Zebra", "apple"]
    assert story() == [
        ("asleep", -1, "dag_paused"),
        ("wide", -1, "too_wide"),
        ("mapped", 0, "no_room"),
        ("mapped", 1, "no_room"),
        ("mapped", 2, "no_room"),
        ("none", -1, "no_room"),
        ("fat", -1, "no_room"),
    ]
    world.group("Ordnung", 2, ageing_seconds=1)
    assert [entry[0] for entry in story()] == ["asleep", "wide", "mapped", "mapped", "mapped", "none", "fat"]


def test_ageing_lifts_who_has_waited_long(world: World, scheduler: FakeScheduler) -> None:
    """S08: an hour of waiting is worth six points at 600 seconds a point."""
    for ageing, first in ((600, "old"), (0, "young")):
        world.group("P", 0, ageing_seconds=ageing)
        old = world.task(f"old{ageing}", "P", priority_weight=1)
        world.clock.advance(3600)
        young = world.task(f"young{ageing}", "P", priority_weight=5)
        world.round()
        assert world.waiting()[0] == f"{first}{ageing}"
        for key in (old, young):
            scheduler.do("mark", key, "skipped")
        world.round()
        assert world.waiting() == []


@pytest.mark.parametrize(("waited", "order"), [(3600, ["idle", "young"]), (60, ["young", "idle"])])
def test_another_ageing_gives_new_places_to_who_waits_and_to_who_is_put_back(
    world: World, scheduler: FakeScheduler, waited: int, order: list[str]
) -> None:
    world.group("P", 1)
    idle = world.task("idle", "P", priority_weight=1)
    world.round()
    assert world.granted() == ["idle"]
    world.clock.advance(waited)
    world.task("young", "P", priority_weight=5)
    world.group("P", 1, ageing_seconds=600)

    scheduler.do("pause", "dag", True)
    world.round()
    assert world.pool_of(idle) == "P", "a grant that can not start is taken back"
    assert world.waiting() == order


def test_priorities_and_ageing_are_as_large_as_they_may_be(world: World, scheduler: FakeScheduler) -> None:
    world.group("P", 0)
    for priority in (-(2**31), 2**31 - 1):
        world.task(f"p{priority}", "P", priority_weight=priority)
    world.round()
    for ageing in (MAX_AGEING_SECONDS, 0, 1):
        world.group("P", 0, ageing_seconds=ageing)
        world.task(f"new{ageing}", "P", priority_weight=2**31 - 1)
        world.round()
        assert world.waiting()[0] == f"p{2**31 - 1}"
        assert world.waiting()[-1] == f"p{-(2**31)}"


def test_a_head_that_does_not_fit_keeps_the_slots(world: World, scheduler: FakeScheduler) -> None:
    """S04, strict."""
    world.group("P", 2)
    world.task("runs", "P")
    world.round()
    world.task("wide", "P", pool_slots=2, priority_weight=10)
    world.task("small", "P")
    world.round()
    assert world.granted() == ["runs"]
    assert [e.reason for e in queue_of("P") if e.position] == [
        "needs 2, 1 free",
        "slots are kept for dag.wide, which needs 2",
    ]
    settled(world)


def test_a_bounded_number_passes_the_head(world: World, scheduler: FakeScheduler) -> None:
    """S04, backfill: over all cycles, not in each."""
    world.group("P", 2, strategy=Strategy.BACKFILL, max_passes=2)
    runs = world.task("runs", "P")
    world.round()
    scheduler.run_to(runs)
    world.task("wide", "P", pool_slots=2, priority_weight=10)
    small = world.tasks([Key("dag", "run", f"small{n}") for n in range(4)], "P")
    for key in small[:2]:
        world.round()
        assert world.granted() == ["runs", key.task_id]
        scheduler.run_to(key, "success")
    world.round()
    assert world.granted() == ["runs"]
    scheduler.do("end", runs, "success")
    world.round()
    assert world.granted() == ["wide"]


def test_a_request_wider_than_the_group_is_in_nobodys_way(world: World, scheduler: FakeScheduler) -> None:
    """S22."""
    world.group("P", 2)
    world.task("wide", "P", pool_slots=4, priority_weight=10)
    world.task("small", "P")
    world.round()
    assert world.granted() == ["small"]
    assert [e.reason for e in queue_of("P") if e.position] == ["can never run: needs 4, pool has 2"]
    scheduler.run_to(Key("dag", "run", "small"), "success")
    world.group("P", 4)
    world.round()
    assert world.granted() == ["wide"]


def test_limits_of_a_run_hold_back_its_own_tasks_alone(world: World, scheduler: FakeScheduler) -> None:
    """S06, with the limit reached by grants that the scheduler has not seen yet."""
    world.dag("one", max_active_tasks=1)
    world.run("one", "run")
    world.group("P", 4)
    world.tasks([Key("one", "run", f"x{n}") for n in range(500)], "P", priority_weight=5)
    world.tasks([Key("dag", "run", f"y{n}") for n in range(3)], "P")
    world.round()
    assert sorted(world.granted()) == ["x0", "y0", "y1", "y2"]
    world.rounds(2)
    assert sorted(world.granted()) == ["x0", "y0", "y1", "y2"]
    assert {e.reason_code for e in queue_of("P") if e.position} == {"max_active_tasks"}


@pytest.mark.parametrize("thorough", [True, False])
def test_slots_that_become_free_all_at_once_are_granted_and_looked_at_soon(
    world: World, scheduler: FakeScheduler, thorough: bool
) -> None:
    """Nobody holds when the cycle looks, and somebody does when it ends: the next one must come soon."""
    world.group("P", 2)
    tasks = [world.task(f"t{number}", "P") for number in range(6)]
    world.round()
    for task in tasks[:2]:
        scheduler.run_to(task, "success")
    world.clock.advance()
    result = world.cycle.run(thorough=thorough)
    assert (result.granted, result.busy) == (2, True)
    assert world.granted() == ["t2", "t3"]


@pytest.mark.parametrize("what", ["opened", "outside", "both"])
def test_an_urgent_cycle_does_what_grants_go_by(world: World, scheduler: FakeScheduler, what: str) -> None:
    """A pool opened by hand is closed; whoever runs outside the queue is counted on sight."""
    world.group("P", 1)
    world.cycle.run()
    outside = world.task("outside", "P.running", state="running" if what != "opened" else "success")
    if what != "outside":
        world.pool("P", 1)
    if what == "both":
        world.task("t", "P")
    world.clock.advance()
    assert world.cycle.run(thorough=False).granted == 0
    used = 0 if what == "opened" else 1
    assert (world.pools("P"), groups.get_group("P").used) == ((0, 1), used)
    assert world.state_of(outside) == ([] if what == "opened" else ["granted"])


def test_an_urgent_cycle_leaves_the_rest_to_a_thorough_one(world: World, scheduler: FakeScheduler) -> None:
    """The running pool is but a second fence, so it may be too large for half a second."""
    world.group("P", 1)
    world.cycle.run()
    world.pool("P.running", 5)
    world.clock.advance()
    world.cycle.run(thorough=False)
    assert world.pools("P") == (0, 5)
    world.cycle.run()
    assert world.pools("P") == (0, 1)


def test_a_group_whose_waiters_can_not_start_is_looked_at_in_thorough_cycles(
    world: World, scheduler: FakeScheduler
) -> None:
    """Many such groups must not slow those down in which slots change hands."""
    for name in ("P", "Q"):
        world.group(name, 1)
        world.task(f"in_{name}", name)
    scheduler.do("pause", "dag", True)
    world.cycle.run()
    with watched(world.database.engine) as statements:
        world.cycle.run(thorough=False)
    assert not [sent for sent in statements.seen if "WITH active" in sent], "none is decided on"
    scheduler.do("pause", "dag", False)
    assert world.cycle.run(thorough=False).granted == 0
    assert world.cycle.run().granted == 2


def test_two_groups_do_not_touch_each_other(world: World, scheduler: FakeScheduler) -> None:
    """S68, and S05 without a scheduler: a full group with a long queue, an idle one beside it."""
    world.group("A", 1)
    world.group("B", 5)
    world.tasks([Key("dag", "run", f"a{n}") for n in range(50)], "A", priority_weight=99)
    world.tasks([Key("dag", "run", f"b{n}") for n in range(5)], "B", priority_weight=1)
    world.round()
    assert sorted(world.granted()) == ["a0", "b0", "b1", "b2", "b3", "b4"]


# --- Holders.


def test_a_stuck_task_is_queued_again_and_keeps_its_slot(world: World, scheduler: FakeScheduler) -> None:
    """S29: Airflow erases queued_dttm and sets it back to scheduled."""
    world.group("P", 1)
    stuck = world.task("stuck", "P")
    world.task("next", "P", priority_weight=9, scheduled_dttm=world.clock.now + timedelta(seconds=1))
    world.set_ti(Key("dag", "run", "next"), state=None)
    world.round()
    for _ in range(2):
        assert scheduler.critical_section() == 1
        world.round()
        scheduler.do("requeue_stuck", stuck)
        world.set_ti(Key("dag", "run", "next"), state="scheduled")
        world.round()
        assert world.granted() == ["stuck"]
    scheduler.critical_section()
    scheduler.do("end", stuck, "failed")
    world.round()
    assert world.granted() == ["next"]


def test_a_stuck_task_that_no_cycle_saw_queued_keeps_its_slot_too(
    world: World, scheduler: FakeScheduler
) -> None:
    world.group("P", 1)
    stuck = world.task("stuck", "P")
    world.round()
    scheduler.critical_section()
    scheduler.do("requeue_stuck", stuck)
    world.task("next", "P", priority_weight=9)
    world.round()
    assert world.granted() == ["stuck"]
    settled(world)


def test_a_deferred_holder_keeps_its_slot_until_the_end(world: World, scheduler: FakeScheduler) -> None:
    """S34 and S35: through deferred, scheduled again, queued, running."""
    world.group("P", 1)
    holder = world.task("holder", "P")
    world.task("next", "P", priority_weight=9)
    world.set_ti(Key("dag", "run", "next"), state=None)
    world.round()
    scheduler.run_to(holder)
    world.set_ti(Key("dag", "run", "next"), state="scheduled")
    for move in ("defer", "resume"):
        scheduler.do(move, holder)
        world.round()
        assert world.granted() == ["holder"]
        settled(world)
    scheduler.run_to(holder, "success")
    world.round()
    assert world.granted() == ["next"]


@pytest.mark.parametrize("moves", [["requeue_stuck"], ["start", "defer", "resume"]])
def test_a_holder_that_began_in_the_closed_pool_goes_on_inside(
    world: World, scheduler: FakeScheduler, moves: list[str]
) -> None:
    """The pool was opened by hand for a moment: nobody starts from it now that it is closed again."""
    world.group("P", 1)
    world.tasks([Key("dag", "run", "early")], "P")
    world.pool("P", -1)
    assert scheduler.critical_section() == 1
    world.round()
    assert world.granted() == ["early"]
    for move in moves:
        scheduler.do(move, Key("dag", "run", "early"))
    world.round()
    settled(world)
    scheduler.run_to(Key("dag", "run", "early"), "success")
    world.round()
    assert world.granted() == []


@pytest.mark.parametrize(
    "how", ["success", "failed", "retry", "mark", "delete_ti", "delete_run", "fail_run", "clear"]
)
def test_a_slot_comes_back_however_its_try_ends(world: World, scheduler: FakeScheduler, how: str) -> None:
    """S26, S31, S33, S40."""
    world.run("dag", "other")
    world.group("P", 1)
    holder = world.task("holder", "P")
    world.round()
    scheduler.run_to(holder)
    moves: dict[str, tuple[Any, ...]] = {
        "success": ("end", holder, "success"),
        "failed": ("end", holder, "failed"),
        "retry": ("retry", holder),
        "mark": ("mark", holder, "success"),
        "delete_ti": ("delete_ti", holder),
        "delete_run": ("delete_run", "dag", "run"),
        "fail_run": ("fail_run", "dag", "run"),
        "clear": ("mark", holder, None),
    }
    scheduler.do(*moves[how])
    world.task("next", "P", run_id="other")
    world.round()
    assert world.granted() == ["next"]
    assert world.state_of(holder) == ["released"]
    settled(world)


def test_a_running_task_that_is_cleared_keeps_its_slot_until_it_is_dead(
    world: World, scheduler: FakeScheduler
) -> None:
    """S77: restarting is neither queued nor running, and Airflow's pool forgets it."""
    world.group("P", 1)
    holder = world.task("holder", "P")
    world.round()
    scheduler.run_to(holder)
    scheduler.do("clear", holder)
    world.task("next", "P")
    world.round()
    assert (world.ti(holder).state, world.granted()) == ("restarting", ["holder"])
    scheduler.do("retry", holder)
    scheduler.do("due", holder)
    world.round()
    assert world.granted() == ["next"]
    assert world.pool_of(holder) == "P"
    settled(world)


def test_retries_that_are_too_fast_are_counted_on_sight(world: World, scheduler: FakeScheduler) -> None:
    """S76: queued again in the running pool before a cycle saw the end of the try; never above the size."""
    world.group("P", 2)
    tasks = [world.task(f"t{n}", "P") for n in range(4)]
    world.round()
    scheduler.critical_section()
    for key in tasks[:2]:
        scheduler.do("start", key)
        scheduler.do("retry", key)
        scheduler.do("due", key)
    assert scheduler.critical_section() == 2
    world.round()
    assert sorted(world.granted()) == ["t0", "t1"]
    assert [r.admission for r in world.requests(None, RequestState.GRANTED)] == ["outside", "outside"]
    settled(world)


def test_a_retry_after_a_delay_queues_again_as_a_new_arrival(world: World, scheduler: FakeScheduler) -> None:
    """S33."""
    world.group("P", 1)
    first, second = world.task("first", "P"), world.task("second", "P")
    world.round()
    scheduler.run_to(first)
    scheduler.do("retry", first)
    world.round()
    assert (world.granted(), world.pool_of(first)) == (["second"], "P")
    world.clock.advance(5)
    scheduler.do("due", first)
    world.task("third", "P", scheduled_dttm=world.clock.now - timedelta(seconds=1))
    world.round()
    assert world.waiting() == ["third", "first"]
    assert second.task_id in world.granted()


def test_a_late_event_of_an_old_try_does_not_touch_the_new_one(
    world: World, scheduler: FakeScheduler
) -> None:
    """S31 and rule 11: while the new try waits, the old one's grant is ended, and the other way round."""
    world.group("P", 1)
    key = world.task("t", "P")
    world.round()
    scheduler.run_to(key)
    scheduler.do("retry", key)
    scheduler.do("due", key)
    world.round()
    assert world.state_of(key) == ["released", "granted"]
    assert [(r.try_number, r.end_reason) for r in world.requests(key)] == [(1, "cleared"), (2, None)]


# --- Waiters that wait no longer.


@pytest.mark.parametrize(
    ("state", "reason"), [("failed", "left"), ("success", "left"), ("skipped", "left"), (None, "left")]
)
def test_a_waiter_that_leaves_ends_its_request(
    world: World, scheduler: FakeScheduler, state: str | None, reason: str
) -> None:
    """S28 and S40."""
    world.group("P", 0)
    key = world.task("t", "P")
    world.round()
    world.set_ti(key, state=state)
    world.round()
    assert [(r.state, r.end_reason) for r in world.requests(key)] == [("cancelled", reason)]


def test_a_waiter_that_slipped_in_is_counted_whoever_looks_first(
    world: World, scheduler: FakeScheduler
) -> None:
    """S76: a sweep that finds its task executing leaves the request to the next cycle."""
    world.group("P", 0)
    key = world.task("t", "P")
    world.round()
    world.pool("P", 1)
    assert scheduler.critical_section() == 1
    world.sweep.run()
    world.round()
    assert [(r.state, r.admission) for r in world.requests(key)] == [("granted", "outside")]


def test_a_cleared_waiter_queues_anew_as_one_request(world: World, scheduler: FakeScheduler) -> None:
    """S40: also when no sweep came between."""
    world.group("P", 0)
    key = world.task("t", "P")
    world.round()
    world.set_ti(key, state=None)
    scheduler.do("due", key)
    world.cycle.run()
    assert [(r.state, r.try_number) for r in world.requests(key)] == [("cancelled", 1), ("waiting", 2)]


def test_a_deleted_run_takes_its_requests_along(world: World, scheduler: FakeScheduler) -> None:
    world.group("P", 1)
    world.task("granted", "P")
    world.task("waits", "P")
    world.round()
    scheduler.do("delete_run", "dag", "run")
    world.round()
    assert {(r.state, r.end_reason) for r in world.requests()} == {
        ("released", "gone"),
        ("cancelled", "gone"),
    }
    assert groups.get_group("P").used == 0


def test_runs_of_dag_test_are_none_of_ours(world: World, scheduler: FakeScheduler) -> None:
    """S49: neither queued, nor granted, nor counted; by trigger or by the name of the run."""
    world.run("dag", "by_hand", test=True)
    world.run("dag", "__airflow_temporary_run_2026__")
    world.run("dag", "x_airflow_temporary_run_2026__")
    world.group("P", 1)
    for run_id in ("by_hand", "__airflow_temporary_run_2026__"):
        world.task("waits", "P", run_id=run_id)
        world.task("runs", "P", run_id=run_id, state="running")
    world.round()
    assert (world.requests(), groups.get_group("P").used) == ([], 0)
    world.task("ours", "P", run_id="x_airflow_temporary_run_2026__")
    world.round()
    assert world.granted() == ["ours"]


# --- Outside the queue.


def test_a_dag_may_name_the_running_pool(world: World, scheduler: FakeScheduler) -> None:
    """S36: with room it runs and is counted; without it queues in P."""
    world.group("P", 1)
    direct = world.task("direct", "P.running")
    assert scheduler.critical_section() == 1
    late = world.task("late", "P.running")
    world.round()
    assert world.granted() == ["direct"]
    assert next((e.task_id, e.reason_code) for e in queue_of("P")) == ("direct", "outside")
    assert (world.pool_of(late), world.waiting()) == ("P", ["late"])
    assert scheduler.critical_section() == 0
    scheduler.do("start", direct)
    scheduler.do("end", direct, "success")
    world.round()
    assert world.granted() == ["late"]


def test_a_pool_opened_by_hand_is_a_resize(world: World, scheduler: FakeScheduler) -> None:
    """S72: closed again, what slipped in is overdraft, and nobody is let in until it is paid back."""
    world.group("P", 2)
    tasks = [world.task(f"t{n}", "P") for n in range(6)]
    world.round()
    scheduler.critical_section()
    world.pool("P", 3)
    assert scheduler.critical_section() == 3
    world.round()
    assert world.pools("P") == (0, 0)
    status = groups.get_group("P")
    assert (status.slots, status.used, status.overdraft, status.waiting) == (3, 5, 2, 1)
    assert "set to 3 slots by hand" in (status.notice or "")
    settled(world)
    for key in tasks[:2]:
        scheduler.do("start", key)
        scheduler.do("end", key, "success")
        world.round()
    assert groups.get_group("P").waiting == 1
    scheduler.do("start", tasks[2])
    scheduler.do("end", tasks[2], "success")
    world.round()
    assert groups.get_group("P").waiting == 0


def test_an_edit_of_the_running_pool_is_undone_and_shown(world: World, scheduler: FakeScheduler) -> None:
    """S72 and S73."""
    world.group("P", 2)
    world.round()
    world.pool("P.running", 7, include_deferred=True)
    world.round()
    assert world.pools("P") == (0, 2)
    assert "was set to 7 slots by hand" in (groups.get_group("P").notice or "")
    world.drop_pool("P.running")
    assert [p.code for p in health.check() if p.where == "P"] == ["pool_missing"]
    world.round()
    assert world.pools("P") == (0, 2)
    assert "was missing" in (groups.get_group("P").notice or "")


def test_a_deleted_pool_lets_nobody_in_until_it_is_made_again(world: World, scheduler: FakeScheduler) -> None:
    """S73."""
    world.group("P", 2)
    world.drop_pool("P")
    world.task("t", "P")
    world.rounds(2)
    assert world.granted() == []
    assert [e.reason_code for e in queue_of("P")] == ["pool_missing"]
    assert "pool_missing" in {p.code for p in health.check()}
    world.pool("P", 1)
    world.round()
    assert (world.granted(), world.pools("P")) == (["t"], (0, 1))


@pytest.mark.parametrize("how", ["deleted", "edited"])
def test_the_pool_of_forced_tasks_is_mended(world: World, scheduler: FakeScheduler, how: str) -> None:
    """Without it the scheduler leaves them out for ever."""
    world.group("P", 0)
    key = world.task("t", "P")
    world.round()
    requests.force_start("P", [Which(task_id="t")], who=WHO)
    world.round()
    assert world.pool_of(key) == UNLIMITED_POOL
    world.drop_pool(UNLIMITED_POOL) if how == "deleted" else world.pool(UNLIMITED_POOL, 0)
    assert scheduler.critical_section() == 0
    world.round()
    assert scheduler.critical_section() == 1


# --- Grants taken back.


def test_a_grant_of_a_paused_dag_goes_back_to_its_old_place(world: World, scheduler: FakeScheduler) -> None:
    """Rule 6 and S07."""
    world.dag("other")
    world.run("other", "run")
    world.group("P", 1)
    first = world.task("first", "P", priority_weight=5)
    world.task("second", "P", dag_id="other", priority_weight=4)
    world.round()
    assert world.granted() == ["first"]
    scheduler.do("pause", "dag", True)
    world.round()
    assert (world.granted(), world.pool_of(first)) == (["second"], "P")
    scheduler.do("pause", "dag", False)
    scheduler.run_to(Key("other", "run", "second"), "success")
    world.round()
    assert (world.granted(), world.state_of(first)) == (["first"], ["granted"])


def test_a_grant_that_was_queued_once_is_never_taken_back(world: World, scheduler: FakeScheduler) -> None:
    """Seen by no cycle: queued, and set back to scheduled as stuck."""
    world.group("P", 1)
    key = world.task("t", "P")
    world.round()
    scheduler.run_to(key)
    scheduler.do("defer", key)
    scheduler.do("resume", key)
    scheduler.do("pause", "dag", True)
    world.round()
    assert (world.granted(), world.pool_of(key)) == (["t"], "P.running")


@pytest.mark.parametrize(
    ("case", "kept"),
    [
        ("nobody else waits", True),
        ("the executors are full", True),
        ("somebody waits and the executors have room", False),
    ],
)
def test_a_grant_that_is_not_used_within_the_lease(
    world: World, scheduler: FakeScheduler, case: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.group("P", 1)
    world.task("idle", "P", priority_weight=5)
    world.round()
    if case != "nobody else waits":
        world.task("next", "P")
    if case == "the executors are full":
        monkeypatch.setenv("AIRFLOW__CORE__PARALLELISM", "1")
        world.task("elsewhere", "default_pool", state="running")
    world.clock.advance(59)
    world.round()
    assert world.granted() == ["idle"], "within the lease it stays"
    world.clock.advance(2)
    world.round()
    assert world.granted() == (["idle"] if kept else ["next"])
    if kept:
        return
    assert [e.reason_code for e in queue_of("P") if e.position] == ["put_off"]
    scheduler.run_to(Key("dag", "run", "next"), "success")
    world.clock.advance(61)
    world.round()
    assert world.granted() == ["idle"]


# --- Sizes.


def test_a_shrunk_group_kills_nobody_and_lets_nobody_in(world: World, scheduler: FakeScheduler) -> None:
    """S23."""
    world.group("P", 5)
    tasks = [world.task(f"t{n}", "P") for n in range(8)]
    world.round()
    scheduler.critical_section()
    world.group("P", 1)
    world.round()
    status = groups.get_group("P")
    assert (status.used, status.overdraft, status.free) == (5, 4, 0)
    for key in tasks[:4]:
        scheduler.do("start", key)
        scheduler.do("end", key, "success")
        world.round()
    assert groups.get_group("P").waiting == 3
    scheduler.do("start", tasks[4])
    scheduler.do("end", tasks[4], "success")
    world.round()
    assert groups.get_group("P").waiting == 2
    world.group("P", 3)
    world.round()
    assert groups.get_group("P").waiting == 0


@pytest.mark.parametrize(("mode", "granted"), [("paused", 0), ("bypass", 4), ("active", 1)])
def test_the_mode_of_a_group(world: World, scheduler: FakeScheduler, mode: str, granted: int) -> None:
    """S46 and S47."""
    world.group("P", 1)
    world.set_group("P", mode=mode)
    for number in range(4):
        world.task(f"t{number}", "P")
    world.rounds(2)
    assert len(world.granted()) == granted
    assert scheduler.critical_section() == granted
    world.set_group("P", mode="active")
    settled(world)
    assert len(world.granted()) == max(1, granted)


def test_a_group_without_a_limit(world: World, scheduler: FakeScheduler) -> None:
    world.group("P", -1)
    for number in range(5):
        world.task(f"t{number}", "P", pool_slots=9)
    world.round()
    assert scheduler.critical_section() == 5
    assert (groups.get_group("P").free, world.pools("P")) == (None, (0, -1))
    settled(world)


# --- Adopting and dissolving.


def in_flight(world: World) -> dict[str, Key]:
    """S70: a pool in use."""
    states = {
        "r1": "running",
        "r2": "running",
        "q": "queued",
        "d": "deferred",
        "u": "up_for_retry",
        **{f"s{n}": "scheduled" for n in range(5)},
        "done": "success",
    }
    return {name: world.task(name, "P", state=state) for name, state in states.items()}


@pytest.mark.parametrize("deferred", [False, True])
def test_a_pool_in_use_is_adopted_and_dissolved_twice(
    world: World, scheduler: FakeScheduler, deferred: bool
) -> None:
    """S70: nothing is lost, and plain scheduling goes on afterwards."""
    world.pool("P", 4, include_deferred=deferred, description="ours")
    tasks = in_flight(world)
    holders = ["q", "r1", "r2", *(["d"] if deferred else [])]
    for _ in range(2):
        status = groups.adopt("P", GroupChange(), who=WHO)
        assert (status.slots, status.used, status.description) == (4, len(holders), "ours")
        assert sorted(world.granted()) == sorted(holders)
        assert {world.pool_of(tasks[name]) for name in holders} == {"P.running"}
        world.clock.advance(3)
        settled(world)
        assert len(world.granted()) == 4
        assert world.pools("P") == (0, 4)

        assert groups.dissolve("P", who=WHO)
        assert world.pools("P") == (4, None)
        with world.database.session() as session:
            pool = session.scalars(sa.select(Pool).where(Pool.pool == "P")).one()
            assert (pool.include_deferred, pool.description) == (deferred, "ours")
        assert {world.pool_of(key) for key in tasks.values()} == {"P"}
        assert world.requests(None, RequestState.GRANTED, RequestState.WAITING) == []
    assert scheduler.critical_section() == (0 if deferred else 1)


@pytest.mark.parametrize("database", backends("sqlite", "mariadb"), indirect=True)
def test_without_row_locks_nobody_is_let_in_right_after_adopting(
    world: World, scheduler: FakeScheduler
) -> None:
    """A scheduler may still start what it chose before the pool was closed; that is counted on sight."""
    world.pool("P", 1)
    groups.adopt("P", GroupChange(), who=WHO)
    slipped, waits = world.task("slipped", "P"), world.task("waits", "P")
    world.set_ti(slipped, state="queued")
    world.round()
    assert (world.granted(), world.waiting()) == (["slipped"], [waits.task_id])
    world.set_ti(slipped, state="success")
    world.round()
    assert [e.reason_code for e in queue_of("P")] == ["settling"]
    world.clock.advance(2)
    world.round()
    assert world.granted() == ["waits"]


def test_default_pool_is_adopted_and_stays(world: World, scheduler: FakeScheduler) -> None:
    """S71."""
    status = groups.adopt("default_pool", GroupChange(), who=WHO)
    assert status.slots == 128
    assert len(groups.what_adopting_means(status)) == 2
    world.task("t", "default_pool")
    world.clock.advance(3)
    settled(world)
    assert world.granted() == ["t"]
    scheduler.run_to(Key("dag", "run", "t"), "success")
    world.round()
    groups.delete("default_pool", who=WHO)
    assert world.pools("default_pool") == (128, None)


def test_a_foreign_pool_of_the_running_pools_name_is_left_alone(world: World) -> None:
    """S73."""
    world.pool("P", 2)
    world.pool("P.running", 3)
    with pytest.raises(PoolNameTakenError, match=r"P\.running"):
        groups.adopt("P", GroupChange(), who=WHO)
    assert world.pools("P") == (2, 3)
    with pytest.raises(PoolNameTakenError):
        groups.set_group("Q", GroupChange(slots=1), who=WHO) if world.pool("Q.running", 1) is None else None
    assert world.pools("Q") == (None, 1)


def test_bad_input_changes_nothing(world: World) -> None:
    """The value, the place and the remedy; the tables stay as they were."""
    world.pool("ordinary", 2)
    world.group("P", 1)

    def tables() -> tuple[Any, ...]:
        facts = look(world.database, world.clock.now)
        return facts.groups, facts.pools

    before = tables()
    cases: dict[str, tuple[type[Exception], Any]] = {
        "below -1": (InvalidValueError, lambda: groups.set_group("P", GroupChange(slots=-2), who=WHO)),
        "no size": (InvalidValueError, lambda: groups.set_group("new", GroupChange(), who=WHO)),
        "ordinary": (OrdinaryPoolError, lambda: groups.set_group("ordinary", GroupChange(slots=1), who=WHO)),
        "too long": (InvalidNameError, lambda: groups.set_group("x" * 249, GroupChange(slots=1), who=WHO)),
        "empty": (InvalidNameError, lambda: groups.set_group("  ", GroupChange(slots=1), who=WHO)),
        "running": (AlreadyGroupError, lambda: groups.set_group("P.running", GroupChange(slots=1), who=WHO)),
        "adopt twice": (AlreadyGroupError, lambda: groups.adopt("P", GroupChange(), who=WHO)),
        "adopt nothing": (UnknownPoolError, lambda: groups.adopt("nothing", GroupChange(), who=WHO)),
        "adopt running": (AlreadyGroupError, lambda: groups.adopt("P.running", GroupChange(), who=WHO)),
        "get nothing": (UnknownGroupError, lambda: groups.get_group("nothing")),
        "get ordinary": (OrdinaryPoolError, lambda: groups.get_group("ordinary")),
        "queue of nothing": (UnknownGroupError, lambda: queue_of("nothing")),
        "dissolve ordinary": (OrdinaryPoolError, lambda: groups.dissolve("ordinary", who=WHO)),
        "delete nothing": (UnknownGroupError, lambda: groups.delete("nothing", who=WHO)),
        "passes": (InvalidValueError, lambda: groups.set_group("P", GroupChange(max_passes=0), who=WHO)),
        "ageing": (InvalidValueError, lambda: groups.set_group("P", GroupChange(ageing_seconds=-1), who=WHO)),
    }
    for error, action in cases.values():
        with pytest.raises(error):
            action()
        assert tables() == before


def test_a_group_in_use_is_not_deleted(world: World, scheduler: FakeScheduler) -> None:
    world.group("P", 1)
    key = world.task("t", "P")
    world.round()
    with pytest.raises(GroupInUseError, match="0 waiting, 1 holding"):
        groups.delete("P", who=WHO)
    scheduler.run_to(key, "success")
    world.round()
    groups.delete("P", who=WHO)
    assert world.pools("P") == (None, None)
    with world.database.session() as session:
        assert session.get(SlotGroup, "P") is None


def test_a_group_that_is_being_dissolved_is_not_changed(world: World) -> None:
    world.group("P", 1)
    world.set_group("P", mode="dissolving")
    with pytest.raises(DissolvingError):
        world.group("P", 2)
    world.round()
    assert world.pools("P") == (1, None)


def test_manual_actions_are_in_the_audit_log_and_in_the_history(world: World) -> None:
    world.pool("P", 3)
    groups.adopt("P", GroupChange(), who="ada", comment="why not")
    groups.set_group("P", GroupChange(slots=5), who="bob")
    groups.dissolve("P", who="ada")
    with world.database.session() as session:
        log = session.execute(
            sa.select(Log.event, Log.owner).where(Log.event.startswith("slotgroups.")).order_by(Log.id)
        ).all()
        changes = session.execute(
            sa.select(SlotGroupChange.cause, SlotGroupChange.slots, SlotGroupChange.comment).order_by(
                SlotGroupChange.id
            )
        ).all()
    assert [tuple(row) for row in log] == [
        ("slotgroups.adopt", "ada"),
        ("slotgroups.set", "bob"),
        ("slotgroups.dissolve", "ada"),
    ]
    assert [tuple(row) for row in changes] == [
        ("adopt", 3, "why not"),
        ("set", 5, None),
        ("dissolve", 5, None),
    ]


# --- Names.


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "with blanks inside",
        "a/b\\c",
        """it's "quoted" `so`""",
        "50% _like_",
        "dots.and.running",
        "日本語 🚦 émoji",
        "%(name)s :bind ?",
        "x" * MAX_NAME_LENGTH,
        "🚦" * MAX_NAME_LENGTH,
    ],
    ids=lambda name: name[:20].encode("ascii", "backslashreplace").decode(),
)
def test_names_of_all_kinds(world: World, scheduler: FakeScheduler, name: str) -> None:
    """Made, used, resized, adopted anew and deleted under that name."""
    world.group(name, 1)
    key = world.task("t", name)
    world.task("next", name)
    settled(world)
    assert (world.granted(), world.pool_of(key)) == (["t"], name + ".running")
    assert groups.get_group(name).pool == name
    assert len(queue_of(name)) == 2
    scheduler.run_to(key, "success")
    world.group(name, 2)
    settled(world)
    assert groups.dissolve(name, who=WHO)
    groups.adopt(name, GroupChange(), who=WHO)
    world.clock.advance(3)
    settled(world)
    assert [r.pool for r in world.requests(None, RequestState.GRANTED)] == [name]


@pytest.mark.parametrize("one_after_the_other", [("Pool", "pool"), ("straße", "strasse"), ("a", "a ")])
def test_names_that_a_database_may_take_for_equal(
    world: World, scheduler: FakeScheduler, one_after_the_other: tuple[str, str]
) -> None:
    """What differs by case, accent or a blank at the end is two groups, or refused in one clear line."""
    first, second = one_after_the_other
    world.group(first, 1)
    world.task("one", first)
    world.round()
    assert world.granted() == ["one"]
    if world.database.backend == "mariadb":
        return
    world.group(second, 1)
    world.task("two", second)
    settled(world)
    assert {(r.pool, r.task_id) for r in world.requests()} == {(first, "one"), (second, "two")}


# --- Several at once, and none.


def test_a_second_coordinator_finds_nothing_left_to_do(world: World, scheduler: FakeScheduler) -> None:
    world.group("P", 2)
    for number in range(5):
        world.task(f"t{number}", "P")
    other = Cycle(world.database.session, world.clock)
    assert world.cycle.run().granted + other.run().granted == 2
    settled(world)


def test_without_a_group_a_cycle_writes_nothing(world: World, scheduler: FakeScheduler) -> None:
    world.task("t", "default_pool")
    result = world.cycle.run()
    world.sweep.run()
    assert (result.granted, result.busy, world.requests()) == (0, False, [])


def test_check_names_the_pools_that_do_not_exist_and_that_tasks_wait_in(
    world: World, scheduler: FakeScheduler
) -> None:
    """Mistyped in a DAG, or deleted with its group; a group's own missing pool is told of as that."""
    world.group("P", 1)
    world.drop_pool("P")
    world.run("dag", "tested", test=True)
    world.tasks([Key("dag", "run", f"typo{number}") for number in range(2)], "Wharehouse")
    world.task("t", "P")
    world.task("by_test", "nowhere", run_id="tested")
    found = {problem.where: problem for problem in health.check() if problem.code == "no_pool"}
    assert set(found) == {"Wharehouse"}
    assert found["Wharehouse"].text == "2 tasks wait in pool 'Wharehouse', which does not exist"


def test_check_tells_of_requests_that_are_wider_than_their_group(
    world: World, scheduler: FakeScheduler
) -> None:
    """They wait for ever, in nobody's way (S22); with a larger size, or without a limit, nobody does."""
    world.group("a group", 2)
    world.tasks([Key("dag", "run", f"t{number}") for number in (1, 2)], "a group", pool_slots=5)
    world.task("t3", "a group", pool_slots=2)
    world.cycle.put_right(["a group"], STEPS)
    found = [problem for problem in health.check() if problem.code == "too_wide"]
    assert [problem.text for problem in found] == [
        "2 waiting requests need more slots than the group's 2, the widest 5"
    ]
    assert found[0].remedy.startswith("give it more with 'airflow slotgroups set 'a group' 5'")
    for size in (5, -1):
        world.group("a group", size)
        assert "too_wide" not in {problem.code for problem in health.check()}


def test_check_tells_of_a_queue_that_does_not_move(world: World, scheduler: FakeScheduler) -> None:
    """Free slots, an eligible request and no grant for a minute; and no coordinator (S60)."""
    world.group("P", 1)
    world.task("t", "P")
    world.cycle.put_right(["P"], STEPS)
    with world.database.session() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(SlotRequest)) == 1
    world.clock.advance(30)
    assert "stalled" not in {problem.code for problem in health.check()}
    world.clock.advance(60)
    assert "stalled" in {problem.code for problem in health.check()}
    world.round()
    assert "stalled" not in {problem.code for problem in health.check()}

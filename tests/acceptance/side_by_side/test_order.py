"""Order and starvation: S01 to S07, S71."""

from __future__ import annotations

import json

import pytest

from devtools.demo_summary import cycles

from ..board import side_by_side
from ..world import World, names, only

pytestmark = pytest.mark.acceptance


@side_by_side
def test_s01_six_at_once_on_three_slots(world: World) -> None:
    """S01: six tasks of priority 1 to 6 become ready in one loop; 6, 5, 4 go first, then 3, 2, 1."""
    world.set_group("s01", 3)
    world.run("s01")
    world.finish("s01")
    decisions = [sorted(names(cycle)) for cycle in cycles(world.grants("s01"))]
    assert decisions[0] == ["p4", "p5", "p6"], f"decisions were {decisions}"
    assert sorted(name for decision in decisions[1:] for name in decision) == ["p1", "p2", "p3"], decisions
    world.assert_in_order("s01")
    world.assert_never_over("s01", 3)
    world.assert_idle("s01")


@side_by_side
def test_s02_one_slot_strictly_by_priority(world: World) -> None:
    """S02: one slot and priorities 10, 9, 8 are served as 10, 9, 8; the group is made by the real command."""
    world.airflow.cli("slotgroups", "set", "s02", "1", "one at a time", "--comment", "for S02")
    world.run("s02")
    world.finish("s02")
    assert names(world.grants("s02")) == ["p10", "p9", "p8"]
    world.assert_never_over("s02", 1)
    world.assert_idle("s02")


@side_by_side
def test_s03_equal_priority_is_served_by_arrival(world: World) -> None:
    """S03: 200 waiters of one priority with random names are served by arrival, and every look says the same."""
    world.set_group("s03", 3)
    world.run("s03")
    world.wait(lambda: len(world.requests("s03")) == 200, "200 requests in s03")
    before = [row["task_id"] for row in world.waiters("s03")]
    world.wait(lambda: len(world.grants("s03")) >= 12, "12 grants in s03")
    after = [row["task_id"] for row in world.waiters("s03")]
    world.set_run_state("s03", "failed")
    world.assert_idle("s03")
    # Where it locks no rows (SQLite), Airflow may start a task that it had queued when its run was marked: that
    # one was ended, executes all the same, and is counted on sight, beside the request that it had made.
    requests = [row for row in world.requests("s03") if world.locks_rows or row["admission"] != "outside"]
    by_arrival = [row["task_id"] for row in sorted(requests, key=lambda row: (row["arrived_at"], row["id"]))]
    granted = {row["task_id"] for row in requests if row["granted_at"]}
    assert len(by_arrival) == len(set(by_arrival)) == 200, [
        row for row in requests if by_arrival.count(row["task_id"]) != 1
    ]
    assert before == by_arrival[-len(before) :], "the queue does not stand in order of arrival"
    assert after == by_arrival[-len(after) :], "a later look at the queue shows another order"
    assert granted == set(by_arrival[: len(granted)]), "somebody who came later was let in before"
    world.assert_in_order("s03")
    world.assert_never_over("s03", 3)


@side_by_side
def test_s04_strict_keeps_freed_slots_for_a_wide_head(world: World) -> None:
    """S04: from the moment a wide task is the head, freed slots are kept for it, and the queue says so."""
    fill_before_wide_task(world, "s04_strict", strategy="strict")
    world.open("s04_strict_a")
    world.wait_group("s04_strict", used=1)

    def kept() -> None:
        waiters = world.waiters("s04_strict")
        assert waiters[0]["task_id"] == "wide", f"the head is {waiters[0]}"
        assert waiters[0]["reason"] == "needs 2, 1 free", f"the head's reason is {waiters[0]['reason']!r}"
        assert {row["reason_code"] for row in waiters[1:]} == {"behind_head"}, f"behind it: {waiters[1:]}"
        assert world.group("s04_strict")["used"] == 1, "a freed slot was not kept for the head"

    world.watch(kept)
    finish_wide_task(world, "s04_strict")
    assert names(world.grants("s04_strict"))[2] == "wide", names(world.grants("s04_strict"))


@side_by_side
def test_s04_backfill_lets_a_bounded_number_pass(world: World) -> None:
    """S04 with backfill: exactly max_passes narrow tasks pass the wide head, not one more."""
    fill_before_wide_task(world, "s04_backfill", strategy="backfill", max_passes=3)
    world.open("s04_backfill_a")
    world.wait(lambda: states_of(world, "s04_backfill_narrow").count("success") == 4, "three that pass")

    def bounded() -> None:
        granted = names(world.grants("s04_backfill"))
        assert len(granted) == 5, f"three may pass the head, let in were {granted}"

    world.watch(bounded)
    finish_wide_task(world, "s04_backfill")
    assert names(world.grants("s04_backfill"))[5] == "wide", names(world.grants("s04_backfill"))


def fill_before_wide_task(world: World, name: str, **settings: str | int) -> None:
    """Two slots taken by tasks that hold, narrow waiters, and then a wide task of the highest priority."""
    world.set_group(name, 2, **settings)
    world.run(f"{name}_narrow")
    world.wait_group(name, used=2, waiting=20)
    world.run(f"{name}_wide")
    world.wait_group(name, used=2, waiting=21)


def finish_wide_task(world: World, name: str) -> None:
    """Free the other slot; the wide task goes next, then all end."""
    world.open(f"{name}_b")
    world.finish(f"{name}_narrow", f"{name}_wide")
    world.assert_never_over(name, 2)
    world.assert_idle(name)


def states_of(world: World, dag_id: str) -> list[str | None]:
    """States of a run's task instances."""
    return list(world.states(dag_id).values())


@side_by_side
def test_s05_a_long_queue_does_not_starve_an_idle_group(world: World) -> None:
    """S05: 1,000 waiters of priority 2 on a nearly full group; another group's 100 of priority 1 fill it at once."""
    world.set_group("s05_a", 20)
    world.set_group("s05_b", 20)
    world.run("s05_holder")
    world.wait_group("s05_a", used=19, free=1)
    world.run("s05_a")
    world.wait_group("s05_a", used=20, waiting=999)
    world.run("s05_b")
    world.wait_group("s05_b", used=20, waiting=96)
    assert world.group("s05_a")["waiting"] == 999, "the long queue moved, which proves nothing"
    waited = [grant.granted_at - grant.enqueued_at for grant in world.grants("s05_b")]
    assert max(waited).total_seconds() < 10, f"the idle group let its waiters in only after {waited}"
    for dag_id in ("s05_a", "s05_b"):
        world.set_run_state(dag_id, "failed")
    world.open("s05")
    world.assert_idle("s05_a")
    world.assert_idle("s05_b")
    world.assert_never_over("s05_a", 20)
    world.assert_never_over("s05_b", 20)


@side_by_side
def test_s06_a_dag_at_its_own_limit_does_not_block_others(world: World) -> None:
    """S06: 500 waiters of a DAG with max_active_tasks=1 stand first; another DAG's five go past them."""
    world.set_group("s06", 2)
    world.run("s06_narrow")
    world.wait(lambda: len(world.requests("s06")) == 500, "500 requests in s06")
    world.run("s06_other")
    world.finish("s06_other")
    assert world.run_state("s06_narrow") is None, "the limited DAG ended first, which proves nothing"
    waiters = world.waiters("s06")
    assert len(waiters) > 400, f"{len(waiters)} of 500 still wait"
    held = world.wait(
        lambda: [row for row in world.waiters("s06") if "max_active_tasks" in row["reason"]], "reason"
    )
    assert {row["reason_code"] for row in held} == {"max_active_tasks"}, held[:3]
    world.set_run_state("s06_narrow", "failed")
    world.assert_idle("s06")
    world.assert_never_over("s06", 2)
    world.assert_never_over("s06", 1, dag_id="s06_narrow")


@side_by_side
def test_s07_a_paused_head_keeps_its_place(world: World) -> None:
    """S07: the head's DAG is paused: it is passed over with that reason; unpaused, it is next."""
    world.set_group("s07", 1)
    world.run("s07_holder")
    world.wait_group("s07", used=1)
    world.run("s07_paused", "s07_others")
    world.wait_group("s07", used=1, waiting=4)
    world.airflow.pause("s07_paused")
    world.open("s07_a")
    world.wait(lambda: "s07_others.first" in {g.task for g in world.grants("s07")}, "the next one to go")
    head = world.waiters("s07")[0]
    assert (head["dag_id"], head["reason_code"]) == ("s07_paused", "dag_paused"), f"the head is {head}"
    assert head["reason"] == "DAG 's07_paused' is paused"
    world.airflow.unpause("s07_paused")
    world.open("s07_b")
    world.finish("s07_paused", "s07_others")
    granted = names(world.grants("s07"))
    assert granted[:3] == ["hold", "first", "nap"]
    # The last two have one priority, and may have arrived at one moment.
    assert sorted(granted[3:]) == ["n0", "n1"]
    world.assert_never_over("s07", 1)
    world.assert_idle("s07")


@side_by_side
def test_s71_default_pool_adopted(world: World) -> None:
    """S71: default_pool adopted by the real command; tasks of 50 DAGs are one queue, in order, never above four."""
    said = world.cli("slotgroups", "adopt", "default_pool")
    assert "'default_pool' is the pool of every task that names none" in said, f"no warning in {said!r}"
    world.set_group("default_pool", 4)
    dag_ids = [f"s71_{number:02d}" for number in range(50)]
    world.run("s71_holder")
    world.wait_group("default_pool", used=4)
    world.run(*dag_ids)
    world.wait_group("default_pool", used=4, waiting=50)
    listed = json.loads(world.cli("slotgroups", "queue", "default_pool", "-o", "json"))
    assert [row["position"] for row in listed if row["state"] == "waiting"] == list(range(1, 51))
    world.open("s71")
    world.finish("s71_holder", *dag_ids)
    world.assert_in_order("default_pool")
    world.assert_never_over("default_pool", 4)
    world.assert_idle("default_pool")
    assert "ordinary pool again" in world.cli("slotgroups", "dissolve", "default_pool")
    pool = only(world.rows("SELECT pool, slots FROM slot_pool"), pool="default_pool")
    assert pool["slots"] == 4, f"dissolved into {pool}"

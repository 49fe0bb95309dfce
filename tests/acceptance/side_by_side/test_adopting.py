"""Pools that were there before, and hands that edit them: S70, S72."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devtools.demo_summary import Grant

from ..board import side_by_side
from ..world import World, only, task_name

pytestmark = pytest.mark.acceptance


@side_by_side
def test_s70_adopted_and_dissolved_twice_with_tasks_in_every_state(world: World) -> None:
    """S70: a pool with tasks running, scheduled, deferred and up for retry is adopted and dissolved, twice.

    Nothing is lost, the deferred holder counts, the retry queues, and plain scheduling works afterwards.
    """
    world.rest("POST", "pools", {"name": "s70", "slots": 4, "include_deferred": True, "description": "ours"})
    world.run("s70")
    world.wait(lambda: sorted(filter(None, states(world))) == IN_FLIGHT, f"tasks of s70 to be {IN_FLIGHT}")
    for _ in range(2):
        said = world.cli("slotgroups", "adopt", "s70")
        assert "4 of 4 slots in use" in said, f"adopting says {said!r}"
        assert "Deferred tasks that were let in hold their slots" in said, f"adopting says {said!r}"
        world.wait_group("s70", used=4, overdraft=0)
        assert pools(world, "s70") == {"s70": (0, False), "s70.running": (4, True)}
        world.wait(lambda: len(world.waiters("s70")) >= 5, "the waiters to queue")
        world.dissolve("s70")
        assert pools(world, "s70") == {"s70": (4, True)}
        assert {row["pool"] for row in world.tasks("s70")} == {"s70"}, "a task was left in the running pool"
        assert not [row for row in world.requests("s70") if row["live"]], "a request outlived its group"
    world.adopt("s70")
    world.wait(
        lambda: [
            row for row in world.waiters("s70") if (row["task_id"], row["try_number"]) == ("fail_first", 2)
        ],
        "the retry to queue",
    )
    world.dissolve("s70")
    world.open("s70")
    world.finish("s70")
    assert {task_name(row): row["try_number"] for row in world.tasks("s70")} == {
        **dict.fromkeys(("deferring", "hold0", "hold1"), 1),
        **{f"hold_each[{number}]": 1 for number in range(6)},
        "fail_first": 2,
    }
    world.assert_never_over("s70", 4)


IN_FLIGHT = sorted(["deferred", "up_for_retry", "running", "running", "running", *["scheduled"] * 5])


def states(world: World) -> list[str | None]:
    """States of the tasks of S70."""
    return list(world.states("s70").values())


def pools(world: World, name: str) -> dict[str, tuple[int, bool]]:
    """Slots and include_deferred of a pool and its running pool."""
    rows = world.rows(
        "SELECT pool, slots, include_deferred FROM slot_pool WHERE pool IN (:name, :running)",
        name=name,
        running=f"{name}.running",
    )
    return {row["pool"]: (row["slots"], bool(row["include_deferred"])) for row in rows}


@side_by_side
def test_s70_adopted_and_dissolved_in_full_flow(world: World) -> None:
    """S70: the same twice while twenty short tasks flow through: never above capacity, nothing lost."""
    name = "s70_flow"
    world.rest("POST", "pools", {"name": name, "slots": 3})
    world.run(name)
    for done in (3, 9):
        world.wait(lambda done=done: count_done(world, name) >= done, f"{done} tasks done")  # type: ignore[misc]
        world.adopt(name)
        world.wait(lambda done=done: count_done(world, name) >= done + 3, "three more")  # type: ignore[misc]
        world.dissolve(name)
    world.finish(name)
    assert pools(world, name) == {name: (3, False)}
    assert {row["try_number"] for row in world.tasks(name)} == {1}, "a task was lost and tried again"
    assert {row["pool"] for row in world.tasks(name) if row["pool"] != f"{name}.running"} == {name}
    world.assert_never_over(name, 3)


@side_by_side
def test_s70_a_section_waits_until_its_pool_is_a_group(world: World) -> None:
    """S70: adopted, it holds its slots; then dissolving is refused, or ends the hold when it is told to."""
    name = "s70_section"
    world.rest("POST", "pools", {"name": name, "slots": 1})
    world.run(name)
    world.wait(lambda: world.states(name).get("section.acquire_slots") == "deferred", "the acquire to wait")
    world.adopt(name)
    world.wait(lambda: world.states(name).get("section.inside") == "running", "the section to begin")
    refused = world.command("slotgroups", "dissolve", name)
    assert refused.code == 1, refused
    assert "1 holding" in refused.err, refused
    assert "--end-sections" in refused.err, refused
    world.cli("slotgroups", "dissolve", name, "--end-sections")
    assert pools(world, name) == {name: (1, False)}
    assert not [row for row in world.requests(name) if row["live"]], "a hold outlived its group"
    world.open(name)
    world.finish(name)


def count_done(world: World, dag_id: str) -> int:
    """Tasks of a run that succeeded."""
    return list(world.states(dag_id).values()).count("success")


@side_by_side
def test_s72_edits_of_the_pool_by_hand_are_resizes(world: World) -> None:
    """S72: slots of the pool set by REST, `airflow pools set` and `import` become the size, and it closes again.

    At most old and new slots together are in use, shown as overdraft and paid back; an edit of the running
    pool is undone and shown.
    """
    world.set_group("s72", 2)
    world.run("s72")
    world.wait_group("s72", used=2, waiting=7)
    world.set_pool("s72", 3)
    judge_resize(world, slots=3, most=2 + 3)
    world.cli("pools", "set", "s72", "4", "by hand")
    judge_resize(world, slots=4, most=5 + 4)
    assert "by hand at" in world.group("s72")["notice"], "the edit is not shown"
    imported = write_import(world.airflow.home / "pools.json")
    world.cli("pools", "import", str(imported))
    judge_resize(world, slots=1, most=9)
    before = set(world.grants("s72"))
    world.watch(lambda: no_new_grants(world, before))
    kept = pools(world, "s72")["s72.running"]
    world.set_pool("s72.running", 50)
    world.wait(lambda: pools(world, "s72")["s72.running"] == kept, f"the running pool to be {kept} again")
    group = only(json.loads(world.cli("slotgroups", "get", "s72", "-o", "json")))
    assert "'s72.running' was set to 50 slots by hand" in group["notice"], f"not shown: {group}"
    assert "undone" in group["notice"], f"not shown: {group}"
    world.open("s72")
    world.finish("s72")
    world.assert_idle("s72")


def judge_resize(world: World, slots: int, most: int) -> None:
    """The pool is closed again with this size, and what slipped in meanwhile is counted and shown."""
    group = world.wait_group("s72", slots=slots)
    world.wait(lambda: pools(world, "s72")["s72"] == (0, False), "the pool to be closed again")
    assert slots <= group["used"] or group["waiting"], group
    group = world.wait(lambda: settled(world, slots), "the group to be full")
    assert group["used"] <= most, f"more than old and new slots together: {group}"
    assert group["overdraft"] == max(0, group["used"] - slots), f"overdraft is not shown: {group}"


def settled(world: World, slots: int) -> dict[str, int]:
    """The group once it is full, or over."""
    group = world.group("s72")
    return group if group["used"] >= slots else {}


def no_new_grants(world: World, before: set[Grant]) -> None:
    """Nobody was let in; a grant that had not come to anything may have been taken back."""
    new = set(world.grants("s72")) - before
    assert not new, f"let in before the overdraft was paid back: {new}"


def write_import(path: Path) -> Path:
    """A file for `airflow pools import`."""
    pool = {"slots": 1, "description": "imported", "include_deferred": False}
    path.write_text(json.dumps({"s72": pool}))
    return path

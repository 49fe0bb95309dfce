"""What operators do, by the real commands on a running Airflow: S40, S43 to S47, and the table of DESIGN section 1."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from ..board import side_by_side
from ..world import RUN, Row, World, only

pytestmark = pytest.mark.acceptance


@side_by_side
def test_levers_from_the_command_line(world: World) -> None:
    """Force start, priority, to top, suspend, pause, resume, bypass; use and order after each (S43 to S47)."""
    desk = CommandDesk(world, "levers")
    desk.do("set", "1", "a warehouse", "--comment", "for the tests")
    assert world.rest("GET", "pools/levers")["description"] == "a warehouse"
    world.run("levers")
    world.wait_group("levers", used=1, waiting=5)
    queue = desk.queue()
    assert [row["task_id"] for row in queue] == ["t1", "t2", "t3", "t4", "t5", "t6"]
    assert [row["position"] for row in queue] == [None, 1, 2, 3, 4, 5]
    assert {row["reason_code"] for row in queue[1:]} == {"no_room"}, queue
    assert world.wait(lambda: world.states("levers")["nothing"] == "success", "the EmptyOperator")

    force_start(desk)
    change_the_order(desk)
    pause_and_resume(desk)
    lift_the_limit(desk)

    world.open(*(f"levers_t{number}" for number in range(1, 7)))
    world.finish("levers", "levers_late")
    world.assert_idle("levers")
    ended = json.loads(desk.do("history", "--requests", "-o", "json"))
    assert {row["state"] for row in ended} == {"released"}, ended
    assert not [row for row in ended if row["task_id"] == "nothing"], "an EmptyOperator was made to wait"
    logged = world.rows("SELECT event FROM log WHERE event LIKE 'slotgroups.%' AND extra LIKE '%\"levers\"%'")
    assert {row["event"].removeprefix("slotgroups.") for row in logged} == {
        "set",
        "force-start",
        "prioritize",
        "to-top",
        "suspend",
        "unsuspend",
        "pause",
        "resume",
        "bypass",
    }
    desk.do("delete")


class CommandDesk:
    """Where an operator works on one group, with the command line."""

    def __init__(self, world: World, group: str) -> None:
        self.world = world
        self.group = group

    def do(self, command: str, *arguments: str) -> str:
        """Run a command on the group that must go well; what it printed."""
        return self.world.cli("slotgroups", command, self.group, *arguments)

    def refused(self, command: str, *arguments: str) -> str:
        """Run one that must be refused; what it said."""
        done = self.world.command("slotgroups", command, self.group, *arguments)
        assert done.code == 1, f"{command} ended with {done}"
        return done.err

    def queue(self) -> list[Row]:
        """The queue as a program reads it."""
        return list(json.loads(self.do("queue", "-o", "json")))

    def waiting(self) -> Sequence[str]:
        """Task ids of the waiters, in order."""
        return [row["task_id"] for row in self.world.waiters(self.group)]

    def holding(self) -> set[str]:
        """Task ids of the holders."""
        return {row["task_id"] for row in self.world.holders(self.group)}

    def wait_holding(self, *task_ids: str) -> None:
        """Wait until these, and these alone, hold slots and run."""
        wanted = set(task_ids)

        def runs() -> bool:
            states = self.world.states("levers")
            return self.holding() == wanted and all(states[task] == "running" for task in wanted)

        self.world.wait(runs, f"{wanted} to run in {self.group}")

    def stays(self, *task_ids: str) -> None:
        """See that nobody else is let in, over several cycles."""

        def unchanged() -> None:
            assert self.holding() == set(task_ids), f"{self.holding()} hold slots"

        self.world.watch(unchanged)


def force_start(desk: CommandDesk) -> None:
    """S43 to S45: the last of the queue starts past the capacity; what is over is paid back first."""
    # A grant that nobody has started goes back when somebody is forced in beside it (rule 6).
    desk.wait_holding("t1")
    desk.do("force-start", "--task-id", "t6", "--comment", "the boss wants it")
    desk.wait_holding("t1", "t6")
    group = desk.world.group("levers")
    assert (group["used"], group["overdraft"]) == (2, 1), group
    forced = only([row for row in desk.world.requests("levers") if row["task_id"] == "t6"])
    assert (forced["admission"], forced["comment"]) == ("forced", "the boss wants it"), forced
    assert "holds its slots already" in desk.refused("force-start", "--task-id", "t6")
    desk.world.open("levers_t6")
    desk.world.wait_group("levers", used=1, overdraft=0)
    desk.stays("t1")
    assert "has ended" in desk.refused("force-start", "--request-id", str(forced["id"]))


def change_the_order(desk: CommandDesk) -> None:
    """Priority, to top, and one that is passed over."""
    desk.do("prioritize", "--task-id", "t5", "--priority", "50", "--comment", "late already")
    assert desk.waiting() == ["t5", "t2", "t3", "t4"]
    desk.do("prioritize", "--task-id", "t4", "--top")
    assert desk.waiting() == ["t4", "t5", "t2", "t3"]
    desk.do("suspend", "--task-id", "t5")
    assert {row["task_id"]: row["reason_code"] for row in desk.queue()}["t5"] == "suspended"


def pause_and_resume(desk: CommandDesk) -> None:
    """S46: the holder finishes, nobody is let in, the order is kept."""
    assert "paused: 1 of 1 slot in use, 4 waiting" in desk.do("pause")
    desk.world.open("levers_t1")
    desk.world.wait_group("levers", used=0)
    desk.stays()
    assert desk.waiting() == ["t4", "t5", "t2", "t3"]
    desk.do("resume")
    desk.wait_holding("t4")
    desk.world.open("levers_t4")
    # The one that is suspended stands before it.
    desk.wait_holding("t2")
    desk.do("unsuspend", "--task-id", "t5")
    desk.world.open("levers_t2")
    desk.wait_holding("t5")


def lift_the_limit(desk: CommandDesk) -> None:
    """S47: all go, new ones are not held; when the limit is back those that run count."""
    desk.do("bypass")
    desk.wait_holding("t5", "t3")
    desk.world.run("levers_late")
    desk.world.finish("levers_late")
    desk.do("resume")
    desk.world.wait_group("levers", used=2, overdraft=1)


@side_by_side
def test_s40_waiters_that_are_ended_by_hand(world: World) -> None:
    """S40: marked failed, success, skipped: it never starts. Cleared: it waits on, with one live request."""
    world.set_group("s40", 1)
    world.run("s40")
    world.wait_group("s40", used=1, waiting=4)
    for state in ("failed", "success", "skipped"):
        world.rest("PATCH", f"dags/s40/dagRuns/{RUN}/taskInstances/{state}", {"new_state": state})
    body = {"dry_run": False, "only_failed": False, "dag_run_id": RUN, "task_ids": ["cleared"]}
    world.rest("POST", "dags/s40/clearTaskInstances", body)
    world.wait_group("s40", used=1, waiting=1)
    assert [row["task_id"] for row in world.waiters("s40")] == ["cleared"]
    # Between the clear and the next loop of the scheduler it is nobody's waiter.
    world.wait(lambda: live_states(world, "cleared") == ["waiting"], "one live request of the cleared task")
    world.open("s40")
    world.wait(lambda: world.run_state("s40"), "the end of the run")
    ran = {row["task_id"] for row in world.requests("s40") if row["granted_at"]}
    assert ran == {"holder", "cleared"}, f"let in were {ran}"
    states = world.states("s40")
    assert states == {
        "holder": "success",
        "cleared": "success",
        "failed": "failed",
        "success": "success",
        "skipped": "skipped",
    }
    world.assert_idle("s40")


def live_states(world: World, task_id: str) -> list[str]:
    """States of the live requests of a task of S40."""
    return [row["state"] for row in world.requests("s40") if row["live"] and row["task_id"] == task_id]

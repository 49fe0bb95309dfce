"""How slots come back: S26, S33, S41, S63, S76, S77."""

from __future__ import annotations

import itertools
from typing import Any

import psutil
import pytest

from ..board import side_by_side
from ..world import RUN, World, moment, only, task_name

pytestmark = pytest.mark.acceptance


@side_by_side
def test_s26_run_marked_failed(world: World) -> None:
    """S26: a run marked failed with holders, waiters and one between tries gives everything back."""
    fill_run(world, "s26_failed")
    world.set_run_state("s26_failed", "failed")
    judge_ended_run(world, "s26_failed")


@side_by_side
def test_s26_run_marked_success(world: World) -> None:
    """S26: the same for a run marked success."""
    fill_run(world, "s26_success")
    world.set_run_state("s26_success", "success")
    judge_ended_run(world, "s26_success")


@side_by_side
def test_s26_run_deleted(world: World) -> None:
    """S26: the same for a run that is marked failed and then deleted."""
    fill_run(world, "s26_delete_run")
    world.set_run_state("s26_delete_run", "failed")
    world.let_a_loop_pass()
    world.rest("DELETE", f"dags/s26_delete_run/dagRuns/{RUN}")
    judge_ended_run(world, "s26_delete_run")


@side_by_side
def test_s26_dag_deleted(world: World) -> None:
    """S26: the same for a DAG that is deleted, its run having been marked failed a moment before."""
    fill_run(world, "s26_delete_dag")
    world.set_run_state("s26_delete_dag", "failed")
    world.let_a_loop_pass()
    end_what_slipped_through(world, "s26_delete_dag")
    # Airflow deletes no DAG of which a task runs.
    world.wait(lambda: not executing(world, "s26_delete_dag"), "the tasks of the run to end")
    world.rest("DELETE", "dags/s26_delete_dag")
    judge_ended_run(world, "s26_delete_dag")


@side_by_side
def test_s26_run_cleared(world: World) -> None:
    """S26: a whole run cleared in the midst queues anew, each task with one live request, and ends."""
    name = "s26_clear"
    fill_run(world, name)
    world.rest("POST", f"dags/{name}/dagRuns/{RUN}/clear", {"dry_run": False})
    world.open(name)
    world.finish(name)
    world.assert_idle(name)
    world.assert_never_over(name, 3)
    again = [row for row in world.requests(name) if row["task_id"] == "first"]
    assert [row["state"] for row in again] == ["released", "released"], (
        f"requests of a cleared holder: {again}"
    )
    assert again[0]["try_number"] < again[1]["try_number"], again


def fill_run(world: World, name: str) -> None:
    """Two tasks that run, one let in a moment ago, five that wait, one between two tries."""
    world.set_group(name, 3)
    world.run(name)
    world.wait(lambda: world.states(name).get("retries") == "up_for_retry", f"a task of {name} between tries")
    world.wait_group(name, used=3, waiting=5)


def judge_ended_run(world: World, name: str) -> None:
    """Nothing of the run is left, and the next run starts at once though the first one's gate is still shut."""
    end_what_slipped_through(world, name)
    world.assert_idle(name)
    world.run(f"{name}_next")
    world.finish(f"{name}_next")
    world.assert_idle(name)


def end_what_slipped_through(world: World, name: str) -> None:
    """On SQLite, where no rows are locked, Airflow may start a task that it had queued when its run was marked.

    That one runs on, and holds its slot to the end.
    """
    if world.locks_rows:
        return
    world.wait(lambda: holds_what_executes(world, name), f"slots of {name} to be those of what executes")
    if executing(world, name):
        world.open(name)


def holds_what_executes(world: World, name: str) -> bool:
    """Nobody waits, and no slot is held but by what executes."""
    group = world.group(name)
    return (group["waiting"], group["used"]) == (0, executing(world, name))


def executing(world: World, name: str) -> int:
    """Tasks of the run that a worker has, or is about to have."""
    return [state in ("queued", "running") for state in world.states(name).values()].count(True)


@side_by_side
def test_s33_a_retry_gives_its_slot_back_and_queues_again(world: World) -> None:
    """S33: three retries: the slot serves others during each delay, the retry has its priority again."""
    world.set_group("s33", 1)
    world.run("s33_retries")
    world.wait(lambda: world.requests("s33"), "the first try's request")
    world.run("s33_filler")
    world.finish("s33_retries", "s33_filler")
    world.assert_idle("s33")
    tries = [row for row in world.requests("s33") if row["dag_id"] == "s33_retries"]
    shown = [(row["try_number"], row["priority"], row["state"], row["admission"]) for row in tries]
    assert shown == [(number, 5, "released", "queue") for number in (1, 2, 3, 4)], shown
    for before, after in itertools.pairwise(tries):
        assert moment(before["ended_at"]) < moment(after["arrived_at"]), f"held during the delay: {before}"
    first_delay = moment(tries[0]["ended_at"]), moment(tries[1]["granted_at"])
    fillers = [grant for grant in world.grants("s33") if grant.task.startswith("s33_filler")]
    served = [grant.task for grant in fillers if first_delay[0] <= grant.granted_at < first_delay[1]]
    assert served, "nobody was served during the retry delay"
    world.assert_never_over("s33", 1)
    world.assert_in_order("s33")


@side_by_side
def test_s41_waiting_is_not_execution_time(world: World) -> None:
    """S41: execution_timeout 4 s, waits more than 6 s, works 2 s: success."""
    world.set_group("s41", 1)
    world.run("s41")
    world.wait_group("s41", used=1, waiting=1)
    world.wait(lambda: only(world.waiters("s41"))["seconds"] > 6, "a wait longer than the time-out")
    world.open("s41")
    world.finish("s41")
    assert [row["try_number"] for row in world.tasks("s41")] == [1, 1]
    world.assert_idle("s41")


@side_by_side
def test_s63_waiters_take_no_place_in_the_triggerer(world: World) -> None:
    """S63: with 5,000 waiting tasks another deferrable operator comes back as it does without them."""
    world.set_group("s63", 0)
    world.rest("POST", "pools", {"name": "s63_plain", "slots": 4})
    before = seconds_deferred(world, "before")
    world.run("s63_waiters")
    world.wait_group("s63", waiting=5000)
    # The scheduler looks at every task instance of a running run in each loop; that is not what is judged.
    world.airflow.pause("s63_waiters")
    with_waiters = seconds_deferred(world, "with_waiters")
    states = world.rows(
        "SELECT state, count(*) AS number FROM task_instance WHERE pool = 's63' GROUP BY state"
    )
    assert states == [{"state": "scheduled", "number": 5000}], f"waiters are {states}"
    assert with_waiters < before + 20, f"deferred for {with_waiters} s with waiters, {before} s without"
    world.set_run_state("s63_waiters", "failed")
    world.let_a_loop_pass()
    world.rest("DELETE", f"dags/s63_waiters/dagRuns/{RUN}")
    world.assert_idle("s63")


def seconds_deferred(world: World, run_id: str) -> float:
    """Run a task that defers for a moment; from its start to its end."""
    world.run("s63_deferring", run_id=run_id)
    world.finish("s63_deferring", run_id=run_id)
    row = only(world.tasks("s63_deferring", run_id))
    return (moment(row["end_date"]) - moment(row["start_date"])).total_seconds()


@side_by_side
def test_s76_retries_at_once_and_later(world: World) -> None:
    """S76: retries without delay in a full group never bring it over, and one too fast is shown as outside.

    With a delay of five seconds every retry queues again, as a new arrival.
    """
    world.set_group("s76", 4)
    world.run("s76_at_once", "s76_later")
    world.finish("s76_at_once", "s76_later")
    world.assert_never_over("s76", 4)
    world.assert_idle("s76")
    requests = world.requests("s76")
    for row in world.tasks("s76_at_once") + world.tasks("s76_later"):
        assert row["try_number"] == 2, f"{task_name(row)} was to run twice: {row}"
    second = [row for row in requests if row["try_number"] == 2]
    # On a slow machine a retry without delay may be over before a cycle has seen it; no more than that.
    assert len({(row["dag_id"], row["map_index"]) for row in second}) == len(second), second
    unseen = {row["state"] for row in second if row["admission"] not in ("queue", "outside")}
    assert unseen <= {"cancelled"}, second
    later = [row for row in second if row["dag_id"] == "s76_later"]
    assert [row["admission"] for row in later] == ["queue"] * 24, (
        f"delayed retries did not all queue: {later}"
    )
    for row in later:
        first = first_try(requests, row)
        assert moment(first["ended_at"]) < moment(row["arrived_at"]), f"not a new arrival: {row}"


def first_try(requests: list[dict[str, Any]], retry: dict[str, Any]) -> dict[str, Any]:
    """The request of the first try of a retry."""
    return only(requests, dag_id=retry["dag_id"], map_index=retry["map_index"], try_number=1)


@side_by_side
def test_s77_clear_races_a_grant(world: World) -> None:
    """S77: all task instances are cleared again and again while they are let in: nothing leaks, all end.

    Where the old process of a try that was cleared while it was queued reports its failure, Airflow fails the
    cleared one, in any pool; so how the run ends is not judged.
    """
    name = "s77_race"
    world.set_group(name, 2)
    world.run(name)
    for wanted in (2, 4, 6):
        world.wait(lambda wanted=wanted: len(world.grants(name)) >= wanted, f"{wanted} grants")  # type: ignore[misc]
        clear(world, name)
    world.wait(lambda: world.run_state(name), "the end of the run")
    world.assert_idle(name)
    world.assert_never_over(name, 2)
    live = [row for row in world.requests(name) if row["live"]]
    assert not live, f"live requests after the end: {live}"


@side_by_side
def test_s77_clear_of_a_running_task_that_is_slow_to_die(world: World) -> None:
    """S77: a cleared running task that takes its time to die keeps its slot until its process is gone."""
    name = "s77_slow"
    world.set_group(name, 1)
    world.run(name)
    pid_file, dying = world.gates / f"{name}.pid", world.gates / f"{name}.dying"
    world.wait(lambda: pid_file.exists() and pid_file.read_text(), "the slow task's process")
    pid = int(pid_file.read_text())
    world.wait_group(name, used=1, waiting=1)
    clear(world, name, task_ids=["slow"])
    world.wait(dying.exists, "the slow task to be told to end")
    seen_dying = 0

    def gone() -> bool:
        nonlocal seen_dying
        granted = {row["task_id"] for row in world.requests(name) if row["granted_at"] and row["live"]}
        alive = psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        # In this order: whoever is let in while the process still lives afterwards was let in too early.
        assert not (alive and granted != {"slow"}), f"{granted} hold while process {pid} lives"
        seen_dying += alive
        return not alive

    world.wait(gone, "the slow task's death")
    assert seen_dying > 1, "the task died too fast to show anything"
    world.finish(name)
    world.assert_never_over(name, 1)
    world.assert_idle(name)


def clear(world: World, dag_id: str, task_ids: list[str] | None = None) -> None:
    """Clear task instances of a run in every state, as a person does in the pages."""
    body: dict[str, Any] = {"dry_run": False, "only_failed": False, "dag_run_id": RUN}
    if task_ids:
        body["task_ids"] = task_ids
    world.rest("POST", f"dags/{dag_id}/clearTaskInstances", body)

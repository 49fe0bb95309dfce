"""What DAG files say of slots, and sections: S08, S09, S32, S42, S49 to S52."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

import pytest

from ..board import side_by_side
from ..world import RUN, Row, World, moment, names, only

pytestmark = pytest.mark.acceptance


@side_by_side
def test_s08_ageing_lets_the_old_one_pass(world: World) -> None:
    """S08, with a point a second in place of 600: priority 1 that has waited goes before a new priority 5."""
    assert order_of_two(world, "s08_aged", ageing_seconds=1) == ["old", "new"]


@side_by_side
def test_s08_without_ageing_priority_counts_alone(world: World) -> None:
    """S08, the other way round."""
    assert order_of_two(world, "s08_plain", ageing_seconds=0) == ["new", "old"]


def order_of_two(world: World, name: str, ageing_seconds: int) -> list[str]:
    """Let a low priority wait for more than five seconds, then a high one come; the order in which they go."""
    world.set_group(name, 1, ageing_seconds=ageing_seconds)
    world.run(f"{name}_holder")
    world.wait_group(name, used=1, waiting=0)
    world.run(f"{name}_old")
    world.wait_group(name, used=1, waiting=1)
    arrived = moment(world.waiters(name)[0]["since"])
    world.wait(lambda: datetime.now(timezone.utc) - arrived > timedelta(seconds=6), "an old waiter")
    world.run(f"{name}_new")
    world.wait_group(name, used=1, waiting=2)
    queued = [row["task_id"] for row in world.waiters(name)]
    world.open(name)
    world.finish(f"{name}_old", f"{name}_new")
    granted = [task for task in names(world.grants(name)) if task != "hold"]
    assert granted == queued, f"the queue showed {queued}, and let in were {granted}"
    return queued


@side_by_side
def test_s09_the_queue_shows_the_priority_that_was_given(world: World) -> None:
    """S09: on the operator, by slot_args, in default_args, on a mapped task, left out, by conf, on a retry."""
    world.set_group("s09", 0)
    world.run("s09", "s09_weights")
    world.airflow.trigger("s09_weights", "by_conf", {"slot_priority": 99})
    world.airflow.trigger("s09_weights", "bad_conf", {"slot_priority": "high"})
    world.wait_group("s09", waiting=10)
    waiters = world.waiters("s09")
    shown = sorted((row["run_id"], row["task_id"], row["priority"]) for row in waiters)
    assert shown == [
        ("bad_conf", "first", 2),
        ("by_conf", "first", 99),
        (RUN, "first", 2),
        (RUN, "group.of_group", 5),
        (RUN, "mapped", 13),
        (RUN, "mapped", 13),
        (RUN, "of_dag", 3),
        (RUN, "of_operator", 7),
        (RUN, "of_slot_args", 11),
        (RUN, "retried", 17),
    ]
    ignored = only([row for row in waiters if row["run_id"] == "bad_conf"])
    assert "slot_priority" in ignored["notice"], f"nothing says that the priority was ignored: {ignored}"
    world.set_group("s09", 1)
    world.finish("s09", "s09_weights")
    world.finish("s09_weights", run_id="by_conf")
    world.finish("s09_weights", run_id="bad_conf")
    tries = [row["priority"] for row in world.requests("s09") if row["task_id"] == "retried"]
    assert tries == [17, 17], f"priorities of its two tries: {tries}"
    world.assert_idle("s09")


@side_by_side
def test_s32_a_sensor_that_comes_again_frees_its_slot(world: World) -> None:
    """S32: a sensor in reschedule mode gives its slot back each time, and queues again, one request at a time."""
    world.set_group("s32", 1)
    world.run("s32")
    world.wait(lambda: world.states("s32")["nap_each[2]"] == "success", "the others to have had their turns")
    assert world.states("s32")["sensor"] != "success"
    world.wait(lambda: len(sensor_requests(world)) >= 2, "a second turn of the sensor")
    world.open("s32")
    world.finish("s32")
    requests = sensor_requests(world)
    assert {row["try_number"] for row in requests} == {1}
    for before, after in itertools.pairwise(requests):
        assert moment(before["ended_at"]) <= moment(after["enqueued_at"]), "two requests were live at once"
    world.assert_never_over("s32", 1)
    world.assert_idle("s32")


def sensor_requests(world: World) -> list[Row]:
    """The requests of the sensor, in order."""
    return [row for row in world.requests("s32") if row["task_id"] == "sensor"]


@side_by_side
def test_s42_a_wait_that_is_too_long_fails_the_task(world: World) -> None:
    """S42: no worker, no slot; retries and callbacks are respected; the audit log and the CLI say why."""
    world.set_group("s42", 1)
    world.run("s42_holder")
    world.wait_group("s42", used=1, waiting=0)
    world.run("s42")
    world.wait(lambda: world.run_state("s42") == "failed", "the run to fail")
    task = only(world.tasks("s42"))
    assert (task["state"], task["try_number"]) == ("failed", 2), task
    requests = [row for row in world.requests("s42") if row["dag_id"] == "s42"]
    assert [(row["state"], row["granted_at"]) for row in requests] == [("cancelled", None)] * 2
    waited = [(moment(row["ended_at"]) - moment(row["enqueued_at"])).total_seconds() for row in requests]
    assert all(seconds >= 5 for seconds in waited), f"they waited for {waited} s"
    assert world.group("s42")["used"] == 1
    world.wait((world.gates / "s42.failed").exists, "the failure callback")
    entries = world.rows("SELECT extra FROM log WHERE event = 'slotgroups.max_wait' AND dag_id = 's42'")
    reasons = [json.loads(entry["extra"])["reason"] for entry in entries]
    assert len(reasons) == 2, reasons
    assert all("max_wait" in reason for reason in reasons), reasons
    said = world.cli("slotgroups", "history", "s42", "--requests", "-o", "json")
    ended = [(row["state"], row["end_reason"]) for row in json.loads(said) if row["dag_id"] == "s42"]
    assert ended == [("cancelled", "expired")] * 2, said
    world.open("s42")
    world.finish("s42_holder")


@side_by_side
def test_s49_dags_test_passes_through(world: World) -> None:
    """S49: `airflow dags test` waits for nobody, paused or not, and nothing of it is granted or run twice."""
    world.set_group("s49", 1)
    world.run("s49_holder")
    world.wait_group("s49", used=1, waiting=0)
    for pause in (world.airflow.pause, world.airflow.unpause):
        pause("s49")
        said = world.airflow.cli("dags", "test", "s49", check=False, timeout=240)
        assert said.returncode == 0, f"dags test ended with {said.returncode}\n{said.stdout}\n{said.stderr}"
    ran = world.rows("SELECT task_id, state, try_number FROM task_instance WHERE dag_id = 's49'")
    assert {row["state"] for row in ran} == {"success"}, ran
    of_test = [row for row in world.requests("s49") if row["dag_id"] == "s49"]
    assert not of_test, f"a test run made requests: {of_test}"
    assert world.group("s49")["used"] == 1
    world.open("s49")
    world.finish("s49_holder")


@side_by_side
def test_s50_sections_are_never_interleaved(world: World) -> None:
    """S50: three runs, also when an inner task fails; a task of the group outside sections waits for them."""
    world.set_group("s50", 1)
    runs = ("one", "two", "three")
    for run in runs:
        world.run("s50", run_id=run)
    world.wait_group("s50", used=1, waiting=2)
    world.run("s50_outside")
    world.finish("s50_outside")
    states = {run: world.wait(lambda run=run: world.run_state("s50", run), run) for run in runs}  # type: ignore[misc]
    assert states == {"one": "success", "two": "failed", "three": "success"}
    spans = sorted([span_of(world.tasks("s50", run)) for run in runs])
    spans = sorted([*spans, span_of(world.tasks("s50_outside"))])
    for before, after in itertools.pairwise(spans):
        assert before[1] <= after[0], f"two were inside at once: {spans}"
    assert names(world.grants("s50"))[-1] == "outside", names(world.grants("s50"))
    world.assert_idle("s50")


def span_of(tasks: Iterable[Row]) -> tuple[datetime, datetime]:
    """From the first start to the last end of what a worker ran."""
    ran = [row for row in tasks if row["task_id"].rpartition(".")[2] in ("a", "b", "c", "outside")]
    ran = [row for row in ran if row["start_date"] and row["state"] in ("success", "failed")]
    return min(moment(row["start_date"]) for row in ran), max(moment(row["end_date"]) for row in ran)


@side_by_side
def test_s51_a_run_marked_failed_ends_its_section(world: World) -> None:
    """S51: the slot is back, and goes to the next."""
    begin_section(world, "s51_failed")
    world.set_run_state("s51_failed", "failed")
    end_section(world, "s51_failed")


@side_by_side
def test_s51_a_run_marked_failed_in_a_paused_dag(world: World) -> None:
    """S51: Airflow never runs the release there."""
    begin_section(world, "s51_paused")
    world.airflow.pause("s51_paused")
    world.set_run_state("s51_paused", "failed")
    end_section(world, "s51_paused")


@side_by_side
def test_s51_a_run_that_is_deleted(world: World) -> None:
    """S51: nothing of it is left to release anything. Airflow deletes a run with a release to run with its DAG."""
    begin_section(world, "s51_deleted")
    world.airflow.pause("s51_deleted")
    world.set_run_state("s51_deleted", "failed")
    world.let_a_loop_pass()
    world.rest("DELETE", "dags/s51_deleted")
    end_section(world, "s51_deleted")


@side_by_side
def test_s51_a_run_that_takes_too_long(world: World) -> None:
    """S51: dagrun_timeout."""
    begin_section(world, "s51_timeout")
    world.wait(lambda: world.run_state("s51_timeout") == "failed", "dagrun_timeout")
    end_section(world, "s51_timeout")


def begin_section(world: World, name: str) -> None:
    """A section holds the only slot, and a task of the group waits behind it."""
    world.set_group(name, 1)
    world.run(name)
    world.wait(lambda: world.states(name).get("section.inside") == "running", "the section's task to run")
    holder = only(world.holders(name))
    assert (holder["kind"], holder["task_id"]) == ("section", "section.acquire_slots"), holder
    world.run(f"{name}_next")
    world.wait_group(name, used=1, waiting=1)


def end_section(world: World, name: str) -> None:
    """The slot goes to the one who waits, and nothing is left."""
    world.finish(f"{name}_next")
    world.open(name)
    world.assert_idle(name)


@side_by_side
def test_s51_clearing_an_inner_task(world: World) -> None:
    """S51: while its section runs it keeps the hold; after it ended, the section queues and holds anew."""
    name = "s51_clear"
    world.set_group(name, 1)
    world.run(name, run_id="one")
    inner = lambda: world.states(name, "one").get("section.second")  # noqa: E731
    world.wait(lambda: inner() == "running", "the second task to run")
    hold = only(world.holders(name))["request_id"]
    world.run(f"{name}_next")
    world.wait_group(name, used=1, waiting=1)
    clear(world, name, "section.first")
    world.open(f"{name}_one")
    world.finish(name, run_id="one")
    holds = [row for row in world.requests(name) if row["kind"] == "section"]
    assert [row["id"] for row in holds] == [hold], f"another hold was made: {holds}"
    world.finish(f"{name}_next")
    after = only([row for row in world.requests(name) if row["kind"] == "task"])
    assert moment(after["granted_at"]) >= moment(only(holds)["ended_at"]), "let in during the section"
    world.assert_idle(name)

    clear(world, name, "section.second")
    world.wait(lambda: world.run_state(name, "one") is None, "the run to go on")
    world.finish(name, run_id="one")
    world.assert_idle(name)


def clear(world: World, dag_id: str, task_id: str) -> None:
    """Clear a task and what is behind it, as a person does in the pages."""
    body = {
        "dry_run": False,
        "only_failed": False,
        "dag_run_id": "one",
        "task_ids": [task_id],
        "include_downstream": True,
    }
    world.rest("POST", f"dags/{dag_id}/clearTaskInstances", body)


@side_by_side
def test_s52_default_args_around_a_section(world: World) -> None:
    """S52: callbacks, a time-out shorter than the wait, a limit and retries neither end nor hold it."""
    world.set_group("s52", 1)
    world.run("s52_holder")
    world.wait_group("s52", used=1, waiting=0)
    world.run("s52")
    world.wait_group("s52", used=1, waiting=1)
    arrived = moment(world.waiters("s52")[0]["since"])
    world.wait(lambda: datetime.now(timezone.utc) - arrived > timedelta(seconds=4), "more than its time-out")
    assert world.states("s52")["acquire"] == "deferred"
    world.open("s52")
    world.finish("s52", "s52_holder")
    tries = {row["task_id"]: row["try_number"] for row in world.tasks("s52")}
    assert (tries["acquire"], tries["inside"]) == (1, 1), tries
    world.assert_idle("s52")

"""Why does my task not run? Each limit holds a task on a real Airflow, and `explain` names it first."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest

from .conftest import new_airflow, new_world
from .databases import Migrated
from .world import RUN, World

pytestmark = pytest.mark.acceptance

PARALLELISM = 7
"""Workers for the six that hold, and for one more."""
DAGS = (
    "e_pool",
    "e_wide",
    "e_missing",
    "e_runs",
    "e_retry",
    "e_tasks",
    "e_task",
    "e_task_run",
    "e_deferred",
    "e_group",
)
TRIGGER = "airflow.providers.standard.triggers.file.FileTrigger"


@dataclass(frozen=True)
class Held:
    """A task instance that a limit holds.

    :param sentence: how the answer begins.
    """

    dag_id: str
    task_id: str
    sentence: str
    run_id: str = RUN
    map_index: int = -1


HELD = {
    "dag_paused": Held("e_paused", "nap", "DAG 'e_paused' is paused"),
    "max_active_runs": Held(
        "e_runs",
        "hold",
        "the run is queued: 1 of 1 runs of the DAG are running (max_active_runs)",
        "run_2",
    ),
    "upstream": Held("e_runs", "nap", "waits for upstream: hold (running)"),
    "up_for_retry": Held("e_retry", "fail_while_shut", "its retry is due at 20"),
    "max_active_tasks": Held(
        "e_tasks", "second", "1 of 1 task instances of the run are active (max_active_tasks)"
    ),
    "max_active_tis_per_dag": Held(
        "e_task", "hold_each", "1 of 1 instances of the task are active (max_active_tis_per_dag)", map_index=1
    ),
    "max_active_tis_per_dagrun": Held(
        "e_task_run",
        "hold_each",
        "1 of 1 instances of the task are active in the run (max_active_tis_per_dagrun)",
        map_index=1,
    ),
    "pool": Held("e_pool", "second", "pool 'e_pool' is full: 1 of 1 slots in use"),
    "pool_too_small": Held("e_wide", "nap", "it needs 2 slots, and pool 'e_narrow' has 1"),
    "pool_missing": Held(
        "e_missing",
        "nap",
        "pool 'e_nowhere' does not exist: make it in Admin → Pools, or name another in the DAG",
    ),
    "slot_group": Held(
        "e_group", "third", "waits in slot group 'e_group', place 2, 1 ahead: needs 1, 0 free"
    ),
    "deferred": Held("e_deferred", "deferring", f"it is deferred on {TRIGGER}"),
}


@pytest.fixture(scope="module")
def held(migrated: Migrated, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An Airflow in which each limit holds a task; on SQLite alone, the limits are Airflow's own."""
    home = tmp_path_factory.mktemp("explain")
    config = {"AIRFLOW__CORE__PARALLELISM": str(PARALLELISM)}
    with migrated.copy("sqlite", home) as url, new_airflow(home, url, config, ["explain"]) as airflow:
        airflow.start(triggerer=True)
        with new_world(airflow) as world:
            airflow.wait_dag_parsed([*DAGS, "e_paused", "e_cluster"])
            world.set_group("e_group", 1)
            for name in ("e_pool", "e_narrow"):
                world.rest("POST", "pools", {"name": name, "slots": 1, "include_deferred": False})
            airflow.pause("e_paused")
            world.run(*DAGS, "e_paused")
            world.run("e_runs", run_id="run_2")
            yield world
            world.open("explain")


def explained(world: World, task: Held) -> dict[str, Any]:
    """Ask the API."""
    names = {
        "dag_id": task.dag_id,
        "task_id": task.task_id,
        "run_id": task.run_id,
        "map_index": task.map_index,
    }
    answer: dict[str, Any] = world.airflow.rest.call("GET", f"/slotgroups/api/v1/explain?{urlencode(names)}")
    return answer


def wait_explained(world: World, task: Held) -> dict[str, Any]:
    """Wait until that sentence is the answer; while tasks start it may be another one."""
    heard: list[str] = []

    def says() -> dict[str, Any]:
        answer = explained(world, task)
        if answer["sentence"] not in heard:
            heard.append(answer["sentence"])
        return answer if answer["sentence"].startswith(task.sentence) else {}

    try:
        return world.wait(says, f"'{task.sentence}'", timeout=90)
    except RuntimeError as error:
        pytest.fail(f"{task} is explained by {heard}: {str(error)[-3000:]}")


@pytest.mark.parametrize("name", HELD)
def test_the_limit_that_holds_a_task_is_named_first(held: World, name: str) -> None:
    """By its name, in one sentence, before all limits with their use."""
    answer = wait_explained(held, HELD[name])
    assert answer["name"] == name
    assert next(check["name"] for check in answer["checks"] if check["holds"]) == name


def test_the_command_says_the_same(held: World) -> None:
    """From the same service."""
    task = HELD["slot_group"]
    wait_explained(held, task)
    printed = held.cli("slotgroups", "explain", task.dag_id, task.task_id, task.run_id, "-o", "json")
    said = json.loads(printed[printed.index("[") :])[0]
    assert said["sentence"] == task.sentence
    texts = [check["text"] for check in said["checks"]]
    assert "ahead of it: e_group.second" in texts
    assert "slots are held by: e_group.first" in texts


def test_a_paused_group_is_named(held: World) -> None:
    """Whatever else would hold."""
    held.airflow.rest.call("POST", "/slotgroups/api/v1/pause/e_group", {})
    sentence = "waits in slot group 'e_group', place 1, 0 ahead: the slot group is paused"
    wait_explained(held, Held("e_group", "second", sentence))
    held.airflow.rest.call("POST", "/slotgroups/api/v1/resume/e_group", {})


def test_a_full_cluster_is_named(held: World) -> None:
    """When those that hold have taken all workers, and the executor has more in its queue."""
    for name in (
        "max_active_tasks",
        "max_active_tis_per_dag",
        "max_active_tis_per_dagrun",
        "pool",
        "slot_group",
    ):
        wait_explained(held, HELD[name])
    held.run("e_cluster")
    full = f"it is queued: 12 of {PARALLELISM} task instances of the cluster are active (parallelism)"
    answer = wait_explained(held, Held("e_cluster", "hold_each", full, map_index=5))
    assert answer["name"] == "parallelism"


def test_a_deferred_task_without_a_triggerer_says_so(held: World) -> None:
    """The last test: the triggerer does not come back."""
    task = HELD["deferred"]
    wait_explained(held, task)
    os.kill(held.airflow.pids()["triggerer"], signal.SIGTERM)
    wait_explained(
        held, Held(task.dag_id, task.task_id, f"it is deferred on {TRIGGER}, and no triggerer is alive")
    )

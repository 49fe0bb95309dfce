"""slot_args: what it refuses, and that what it returns reaches the task instance (issue 3, items 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest
from airflow.executors.workloads.base import BundleInfo
from airflow.executors.workloads.task import ExecuteTask, TaskInstanceDTO
from airflow.sdk import DAG, TaskGroup, task
from airflow.utils.sqlalchemy import ExecutorConfigType
from sqlalchemy.dialects import sqlite

from airflow_slotgroups import slot_args
from airflow_slotgroups.domain.errors import InvalidNameError, InvalidValueError
from airflow_slotgroups.domain.run_priority import RunPriority
from airflow_slotgroups.store.discovery import Arrival, max_wait_of, request_row
from tests.unit.authoring import Work, instance_of, new_dag

HOUR = timedelta(hours=1)
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
CARRIED = {"slotgroups": {"max_wait_seconds": 3600.0}}

REFUSED = {
    "slots 0": ({"slots": 0}, "slots can not be 0; give a whole number from 1 up"),
    "negative slots": ({"slots": -1}, "slots can not be -1; give a whole number from 1 up"),
    "slots of a text": ({"slots": "2"}, "slots can not be '2'; give a whole number from 1 up"),
    "slots of a float": ({"slots": 1.0}, "slots can not be 1.0; give a whole number from 1 up"),
    "slots True": ({"slots": True}, "slots can not be True; give a whole number from 1 up"),
    "priority of a text": (
        {"priority": "high"},
        "priority can not be 'high'; give a whole number of 32 bits; bigger goes first",
    ),
    "priority of a float": (
        {"priority": 1.5},
        "priority can not be 1.5; give a whole number of 32 bits; bigger goes first",
    ),
    "priority True": (
        {"priority": True},
        "priority can not be True; give a whole number of 32 bits; bigger goes first",
    ),
    "priority too large": (
        {"priority": 2**31},
        "priority can not be 2147483648; give a whole number of 32 bits; bigger goes first",
    ),
    "priority too small": (
        {"priority": -(2**31) - 1},
        "priority can not be -2147483649; give a whole number of 32 bits; bigger goes first",
    ),
    "negative max_wait": (
        {"max_wait": -timedelta(seconds=1)},
        "max_wait can not be datetime.timedelta(days=-1, seconds=86399); give a timedelta that is not negative",
    ),
    "max_wait in seconds": (
        {"max_wait": 60},
        "max_wait can not be 60; give a timedelta that is not negative",
    ),
    "executor_config of a text": (
        {"executor_config": "pod"},
        "executor_config can not be 'pod'; give a dict, as to the operator itself",
    ),
    "executor_config with our key": (
        {"executor_config": {"slotgroups": {}}},
        "executor_config can not be {'slotgroups': {}}; leave out the key 'slotgroups', which slot_args writes"
        " itself",
    ),
}


@pytest.mark.parametrize(
    ("arguments", "text"), [pytest.param(*row, id=sentence) for sentence, row in REFUSED.items()]
)
def test_a_value_that_can_not_be_is_refused_with_the_remedy(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        slot_args("warehouse", **arguments)

    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("pool", "error", "text"),
    [
        (None, InvalidValueError, "pool can not be None; give the name of a slot group, a string"),
        (7, InvalidValueError, "pool can not be 7; give the name of a slot group, a string"),
        (" ", InvalidNameError, "' ' can not be a slot group: the name is empty; give the group a name"),
        (
            "slotgroups.unlimited",
            InvalidNameError,
            "'slotgroups.unlimited' can not be a slot group: forced starts use that pool; choose another name",
        ),
        (
            "x" * 249,
            InvalidNameError,
            f"'{'x' * 249}' can not be a slot group: the name has 249 characters; choose one of at most 248, so"
            " that '<name>.running' still is a pool's name",
        ),
    ],
)
def test_a_pool_that_can_not_be_a_group_is_refused(pool: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as refused:
        slot_args(pool)

    assert str(refused.value) == text


def test_an_unknown_argument_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"slot_args\(\) got an unexpected keyword argument 'prority'"):
        slot_args("warehouse", prority=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {"pool": "warehouse", "pool_slots": 1}),
        ({"slots": 3}, {"pool": "warehouse", "pool_slots": 3}),
        (
            {"priority": -5},
            {"pool": "warehouse", "pool_slots": 1, "priority_weight": -5, "weight_rule": "absolute"},
        ),
        (
            {"priority": 2**31 - 1},
            {"pool": "warehouse", "pool_slots": 1, "priority_weight": 2**31 - 1, "weight_rule": "absolute"},
        ),
        ({"max_wait": HOUR}, {"pool": "warehouse", "pool_slots": 1, "executor_config": CARRIED}),
        (
            {"max_wait": timedelta(0)},
            {
                "pool": "warehouse",
                "pool_slots": 1,
                "executor_config": {"slotgroups": {"max_wait_seconds": 0.0}},
            },
        ),
        (
            {"executor_config": {"pod_override": 1}},
            {"pool": "warehouse", "pool_slots": 1, "executor_config": {"pod_override": 1}},
        ),
        (
            {"executor_config": {"pod_override": 1}, "max_wait": HOUR},
            {"pool": "warehouse", "pool_slots": 1, "executor_config": {"pod_override": 1, **CARRIED}},
        ),
    ],
)
def test_what_it_returns(arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    assert slot_args("warehouse", **arguments) == expected


def test_the_executor_config_that_was_given_stays_as_it_was() -> None:
    given: dict[str, Any] = {"pod_override": 1}

    slot_args("warehouse", max_wait=HOUR, executor_config=given)

    assert given == {"pod_override": 1}


ARGUMENTS = slot_args("warehouse", slots=2, priority=10, max_wait=HOUR)


def on_an_operator() -> DAG:
    with new_dag() as dag:
        Work(task_id="load", **ARGUMENTS)
    return dag


def in_default_args_of_a_dag() -> DAG:
    with new_dag(default_args=ARGUMENTS) as dag:
        Work(task_id="load")
    return dag


def in_default_args_of_a_task_group() -> DAG:
    with new_dag() as dag, TaskGroup("loads", prefix_group_id=False, default_args=ARGUMENTS):
        Work(task_id="load")
    return dag


def over_default_args() -> DAG:
    with new_dag(default_args=slot_args("api", slots=1, priority=1, max_wait=HOUR / 2)) as dag:
        Work(task_id="load", **ARGUMENTS)
    return dag


def in_partial() -> DAG:
    with new_dag() as dag:
        Work.partial(task_id="load", **ARGUMENTS).expand(value=[1, 2])
    return dag


def in_default_args_of_a_mapped_task() -> DAG:
    with new_dag(default_args=ARGUMENTS) as dag:
        Work.partial(task_id="load").expand(value=[1, 2])
    return dag


def above_taskflow() -> DAG:
    with new_dag() as dag:

        @task(**ARGUMENTS)
        def load() -> None: ...

        load()
    return dag


def above_mapped_taskflow() -> DAG:
    with new_dag() as dag:

        @task(**ARGUMENTS)
        def load(table: int) -> None: ...

        load.expand(table=[1, 2])
    return dag


def by_override() -> DAG:
    with new_dag() as dag:

        @task
        def load() -> None: ...

        load.override(**ARGUMENTS)()
    return dag


PLACES = [
    on_an_operator,
    in_default_args_of_a_dag,
    in_default_args_of_a_task_group,
    over_default_args,
    in_partial,
    in_default_args_of_a_mapped_task,
    above_taskflow,
    above_mapped_taskflow,
    by_override,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_from_every_place_it_reaches_the_task_instance(place: Callable[[], DAG]) -> None:
    """S09; a downstream task would add its weight to the priority, were the rule not absolute."""
    dag = place()
    dag.get_task("load").set_downstream(Work(task_id="behind", dag=dag, priority_weight=50))

    ti = instance_of(dag, "load", map_index=0 if dag.get_task("load").is_mapped else -1)

    assert (ti.pool, ti.pool_slots, ti.priority_weight) == ("warehouse", 2, 10)
    assert ti.executor_config == CARRIED


def test_without_a_priority_the_task_keeps_that_of_its_weight_rule() -> None:
    with new_dag() as dag:
        load = Work(task_id="load", priority_weight=3, **slot_args("warehouse"))
        load.set_downstream(Work(task_id="behind", priority_weight=4))

    assert instance_of(dag, "load").priority_weight == 7


def arrival(executor_config: bytes | None) -> Arrival:
    values = ("task", "warehouse", "nightly", "r", "load", -1, 1, 1, 1, NOW, {}, executor_config, None, None)
    return Arrival(uuid4(), *values)


def in_the_database(executor_config: dict[str, Any]) -> bytes:
    write = ExecutorConfigType().bind_processor(sqlite.dialect())
    assert write is not None
    stored = write(executor_config)
    assert isinstance(stored, bytes)
    return stored


def test_the_coordinator_reads_it_from_what_airflow_stores() -> None:
    with_pod = slot_args("w", max_wait=HOUR, executor_config={"pod_override": {"spec": {}}})

    assert max_wait_of(arrival(in_the_database(ARGUMENTS["executor_config"]))) == (HOUR, None)
    assert max_wait_of(arrival(in_the_database(with_pod["executor_config"]))) == (HOUR, None)
    assert max_wait_of(arrival(in_the_database({}))) == (None, None)
    assert max_wait_of(arrival(None)) == (None, None)


@pytest.mark.parametrize("broken", [{"slotgroups": {"max_wait_seconds": "soon"}}, {"max_wait_seconds": 5}])
def test_a_broken_one_is_none_and_said(broken: dict[str, Any]) -> None:
    found = request_row(arrival(in_the_database(broken)), RunPriority(notice="and the other thing"), 0, NOW)

    assert found["expires_at"] is None
    assert found["notice"].startswith(
        "and the other thing; its max_wait can not be read, and it waits for ever"
    )


def test_the_database_gives_an_executor_config_back_unchanged() -> None:
    """The Kubernetes executor looks for `pod_override` in it and leaves other keys alone (issue 3, item 2)."""
    given = slot_args("w", max_wait=HOUR, executor_config={"pod_override": {"spec": {}}, "queue": "big"})
    read = ExecutorConfigType().result_processor(sqlite.dialect(), None)
    assert read is not None

    assert read(in_the_database(given["executor_config"])) == {
        "pod_override": {"spec": {}},
        "queue": "big",
        **CARRIED,
    }


def test_executors_get_it_unchanged_and_workers_never_see_it() -> None:
    """What Local and Celery executor send to a worker is this JSON, without any executor_config."""
    dto = TaskInstanceDTO(
        id=uuid4(),
        dag_version_id=uuid4(),
        task_id="load",
        dag_id="nightly",
        run_id="r",
        try_number=1,
        map_index=-1,
        hostname=None,
        pool_slots=2,
        priority_weight=10,
        queue="default",
        executor_config=ARGUMENTS["executor_config"],
    )
    workload = ExecuteTask(
        ti=dto, dag_rel_path="x.py", token="", log_path=None, bundle_info=BundleInfo(name="b")
    )

    assert workload.ti.executor_config == CARRIED
    assert "slotgroups" not in workload.model_dump_json()

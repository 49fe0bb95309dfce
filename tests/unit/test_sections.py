"""Sections: what is refused when a DAG is parsed, and what a good one becomes (DESIGN rule 12, S52)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.sdk import DAG, TaskGroup, TriggerRule, task_group
from airflow.sdk.exceptions import DuplicateTaskIdFound

from airflow_slotgroups import AcquireSlotsOperator, HoldSlots, ReleaseSlotsOperator, slot_args
from airflow_slotgroups.domain.errors import InvalidNameError, InvalidValueError, SectionError
from airflow_slotgroups.domain.names import SLOT_TRIGGER_PATH
from tests.unit.authoring import Work, instance_of, new_dag, parse, stored

HOUR = timedelta(hours=1)


def note(context: Any) -> None:
    """A callback."""


# Refused when the whole DAG is known


def a_task_of_the_group_inside() -> DAG:
    with new_dag() as dag, HoldSlots("month_end", pool="warehouse"):
        Work(task_id="load", pool="warehouse")
    return dag


def a_mapped_task_of_the_group_inside() -> DAG:
    with new_dag() as dag, HoldSlots("month_end", pool="warehouse"):
        Work.partial(task_id="load", pool="warehouse").expand(value=[1, 2])
    return dag


def a_task_of_the_running_pool_inside() -> DAG:
    with new_dag() as dag, HoldSlots("month_end", pool="warehouse"):
        Work(task_id="load", pool="warehouse.running")
    return dag


def the_group_in_default_args() -> DAG:
    with new_dag(default_args=slot_args("warehouse")) as dag, HoldSlots("month_end", pool="warehouse"):
        Work(task_id="load")
    return dag


def a_task_outside_the_task_group_but_between() -> DAG:
    with new_dag() as dag:
        between = Work(task_id="between", pool="warehouse")
        with HoldSlots("month_end", pool="warehouse"):
            first, last = Work(task_id="first"), Work(task_id="last")
        first >> between >> last
    return dag


def a_section_without_end_and_a_task_of_the_group_behind() -> DAG:
    with new_dag() as dag:
        acquire = AcquireSlotsOperator(task_id="acquire", pool="warehouse")
        acquire >> Work(task_id="first") >> Work(task_id="load", pool="warehouse")
    return dag


def a_section_inside_a_section() -> DAG:
    with new_dag() as dag, HoldSlots("outer", pool="warehouse"), HoldSlots("inner", pool="api"):
        Work(task_id="load")
    return dag


def an_acquire_inside_a_section_by_hand() -> DAG:
    with new_dag() as dag:
        first = AcquireSlotsOperator(task_id="first", pool="warehouse")
        second = AcquireSlotsOperator(task_id="second", pool="api")
        first >> second >> Work(task_id="load") >> ReleaseSlotsOperator(task_id="release")
    return dag


def a_mapped_acquire_and_one_release() -> DAG:
    with new_dag() as dag:

        @task_group
        def per_table(table: int) -> None:
            AcquireSlotsOperator(task_id="acquire", pool="warehouse") >> Work(task_id="load", value=table)

        per_table.expand(table=[1, 2]) >> ReleaseSlotsOperator(task_id="release")
    return dag


def one_acquire_and_a_mapped_release() -> DAG:
    with new_dag() as dag:
        acquire = AcquireSlotsOperator(task_id="acquire", pool="warehouse")

        @task_group
        def per_table(table: int) -> None:
            Work(task_id="load", value=table) >> ReleaseSlotsOperator(task_id="release")

        acquire >> per_table.expand(table=[1, 2])
    return dag


def acquire_and_release_in_two_mapped_groups() -> DAG:
    with new_dag() as dag:

        @task_group
        def first(table: int) -> None:
            AcquireSlotsOperator(task_id="acquire", pool="warehouse") >> Work(task_id="load", value=table)

        @task_group
        def second(table: int) -> None:
            Work(task_id="check", value=table) >> ReleaseSlotsOperator(task_id="release")

        first.expand(table=[1, 2]) >> second.expand(table=[1, 2])
    return dag


def a_release_without_an_acquire() -> DAG:
    with new_dag() as dag:
        Work(task_id="load") >> ReleaseSlotsOperator(task_id="release")
    return dag


def a_second_release() -> DAG:
    with new_dag() as dag:
        acquire = AcquireSlotsOperator(task_id="acquire", pool="warehouse")
        acquire >> Work(task_id="a") >> ReleaseSlotsOperator(task_id="release_a")
        acquire >> Work(task_id="b") >> ReleaseSlotsOperator(task_id="release_b")
    return dag


ASKS_FOR_MORE = (
    "the section of 'month_end.acquire_slots' in DAG 'nightly' holds slots of 'warehouse', and its task '{}' asks"
    " for more of them; let the tasks inside name another pool"
)
SECTION_INSIDE = (
    "the section of '{}' in DAG 'nightly' has another section inside, '{}';"
    " release the first before the second is acquired"
)
NOT_SAME_MAPPED = (
    "the section of '{}' in DAG 'nightly' ends with '{}', which is not in the same mapped task group;"
    " put both into one mapped task group, or both outside"
)
NO_ACQUIRE = (
    "ReleaseSlotsOperator '{}' of DAG 'nightly' has no AcquireSlotsOperator of its own before it;"
    " write acquire >> ... >> release"
)

REFUSED: list[tuple[Callable[[], DAG], str]] = [
    (a_task_of_the_group_inside, ASKS_FOR_MORE.format("month_end.load")),
    (a_mapped_task_of_the_group_inside, ASKS_FOR_MORE.format("month_end.load")),
    (a_task_of_the_running_pool_inside, ASKS_FOR_MORE.format("month_end.load")),
    (the_group_in_default_args, ASKS_FOR_MORE.format("month_end.load")),
    (a_task_outside_the_task_group_but_between, ASKS_FOR_MORE.format("between")),
    (
        a_section_without_end_and_a_task_of_the_group_behind,
        ASKS_FOR_MORE.format("load").replace("month_end.acquire_slots", "acquire"),
    ),
    (a_section_inside_a_section, SECTION_INSIDE.format("outer.acquire_slots", "outer.inner.acquire_slots")),
    (an_acquire_inside_a_section_by_hand, SECTION_INSIDE.format("first", "second")),
    (a_mapped_acquire_and_one_release, NOT_SAME_MAPPED.format("per_table.acquire", "release")),
    (one_acquire_and_a_mapped_release, NOT_SAME_MAPPED.format("acquire", "per_table.release")),
    (acquire_and_release_in_two_mapped_groups, NOT_SAME_MAPPED.format("first.acquire", "second.release")),
    (a_release_without_an_acquire, NO_ACQUIRE.format("release")),
    (a_second_release, NO_ACQUIRE.format("release_b")),
]


@pytest.mark.parametrize(
    ("make", "text"), [pytest.param(make, text, id=make.__name__) for make, text in REFUSED]
)
def test_a_section_that_would_wait_for_itself_is_refused(make: Callable[[], DAG], text: str) -> None:
    dag = make()

    with pytest.raises(SectionError) as refused:
        parse(dag)

    assert str(refused.value) == text


# Refused where it is written


@pytest.mark.parametrize(
    ("name", "value", "own"),
    [
        ("pool_slots", 2, "slots"),
        ("priority_weight", 2, "priority"),
        ("weight_rule", "absolute", "priority"),
        ("executor_config", {}, "max_wait"),
    ],
)
def test_an_acquire_says_what_each_thing_is_called(name: str, value: object, own: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        AcquireSlotsOperator(task_id="acquire", pool="warehouse", **{name: value})

    assert str(refused.value) == f"{name} can not be {value!r}; give an AcquireSlotsOperator '{own}' instead"


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ({"slots": 0}, InvalidValueError, "slots can not be 0"),
        ({"slots": True}, InvalidValueError, "slots can not be True"),
        ({"priority": "high"}, InvalidValueError, "priority can not be 'high'"),
        ({"priority": 2**31}, InvalidValueError, "priority can not be 2147483648"),
        ({"max_wait": -HOUR}, InvalidValueError, "max_wait can not be datetime.timedelta"),
        ({"pool": None}, InvalidValueError, "pool can not be None"),
        ({"pool": ""}, InvalidNameError, "the name is empty"),
    ],
)
def test_values_are_checked_before_anything_is_made(
    values: dict[str, Any], error: type[Exception], text: str
) -> None:
    arguments: dict[str, Any] = {"pool": "warehouse", **values}
    with new_dag() as dag:
        with pytest.raises(error, match=text):
            AcquireSlotsOperator(task_id="acquire", **arguments)
        with pytest.raises(error, match=text):
            HoldSlots("month_end", **arguments)

    assert dag.task_ids == []


def test_unknown_arguments_are_refused_by_name() -> None:
    with new_dag():
        with pytest.raises(TypeError, match=r"(?s)AcquireSlotsOperator \(task_id: acquire\).*'prority': 3"):
            AcquireSlotsOperator(task_id="acquire", pool="warehouse", prority=3)
        with pytest.raises(TypeError, match="prority"):
            HoldSlots("month_end", pool="warehouse", prority=3)


@pytest.mark.parametrize("operator", [AcquireSlotsOperator, ReleaseSlotsOperator])
def test_neither_end_can_be_mapped_by_itself(operator: Any) -> None:
    with pytest.raises(SectionError) as refused:
        operator.partial(task_id="end")

    assert str(refused.value) == (
        f"{operator.__name__} 'end' can not be mapped by itself;"
        " put the section into a mapped task group: one hold for each map index"
    )


def test_a_first_task_with_another_trigger_rule_is_refused_by_name() -> None:
    """Airflow lets only all_success follow a setup task, and its own error names no task."""
    with new_dag(), pytest.raises(SectionError) as refused, HoldSlots("month_end", pool="warehouse"):
        Work(task_id="load", trigger_rule=TriggerRule.ALL_DONE)

    assert str(refused.value) == (
        "the section of 'month_end.acquire_slots' in DAG 'nightly' begins with 'month_end.load', which has"
        " trigger_rule 'all_done'; let it begin with a task that has 'all_success', an EmptyOperator if there is"
        " no other"
    )


def test_a_section_that_was_refused_leaves_no_task_group_open() -> None:
    with new_dag() as dag:
        with pytest.raises(SectionError), HoldSlots("s", pool="warehouse"):
            Work(task_id="load", trigger_rule=TriggerRule.ALL_DONE)
        Work(task_id="acquire_slots")
        with pytest.raises(DuplicateTaskIdFound), HoldSlots("t", pool="warehouse", prefix_group_id=False):
            pass
        Work(task_id="outside")

    assert dag.has_task("outside")
    assert not dag.has_task("t.outside")


def test_an_error_inside_a_section_stays_the_authors_own() -> None:
    with new_dag(), pytest.raises(ZeroDivisionError), HoldSlots("month_end", pool="warehouse"):
        Work(task_id="load", value=1 / 0)


# What a good section becomes


def neighbours(dag: DAG) -> dict[str, set[str]]:
    """Downstream tasks by task."""
    return {task.task_id: set(task.downstream_task_ids) for task in parse(dag).tasks}


def test_a_section_encloses_its_tasks() -> None:
    with new_dag() as dag:
        before, after = Work(task_id="before"), Work(task_id="after")
        with HoldSlots("s", pool="warehouse") as section:
            a, b = Work(task_id="a"), Work(task_id="b")
            with TaskGroup("more"):
                Work.partial(task_id="c").expand(value=[1])
            a >> b
        before >> section >> after

    assert neighbours(dag) == {
        "before": {"s.acquire_slots"},
        "s.acquire_slots": {"s.a", "s.more.c", "s.release_slots"},
        "s.a": {"s.b"},
        "s.b": {"s.release_slots", "after"},
        "s.more.c": {"s.release_slots", "after"},
        "s.release_slots": set(),
        "after": set(),
    }


def test_setups_and_teardowns_of_ones_own_go_inside() -> None:
    with new_dag() as dag, HoldSlots("s", pool="warehouse", slots=2):
        create, work = Work(task_id="create"), Work(task_id="work")
        delete = Work(task_id="delete").as_teardown(setups=create)
        create >> work >> delete

    found = neighbours(dag)

    assert found["s.acquire_slots"] == {"s.create", "s.release_slots"}
    assert found["s.delete"] == {"s.release_slots"}


def test_an_empty_section_and_two_in_a_row_are_fine() -> None:
    with new_dag() as dag:
        with HoldSlots("first", pool="warehouse") as first:
            Work(task_id="load")
        with HoldSlots("second", pool="warehouse") as second:
            pass
        first >> second

    assert neighbours(dag)["second.acquire_slots"] == {"second.release_slots"}


def test_a_section_by_hand_is_paired_when_the_dag_is_complete() -> None:
    with new_dag() as dag:
        acquire = AcquireSlotsOperator(task_id="acquire", pool="warehouse")
        acquire >> Work(task_id="a") >> Work(task_id="b") >> ReleaseSlotsOperator(task_id="release")

    assert "release" in neighbours(dag)["acquire"]
    assert neighbours(dag) == neighbours(dag), "parsing twice changes nothing"


def test_one_release_may_end_two_acquires_side_by_side() -> None:
    with new_dag() as dag:
        release = ReleaseSlotsOperator(task_id="release")
        for pool in ("warehouse", "api"):
            AcquireSlotsOperator(task_id=pool, pool=pool) >> Work(task_id=f"use_{pool}") >> release

    found = neighbours(dag)

    assert "release" in found["warehouse"]
    assert "release" in found["api"]


def test_sections_in_a_mapped_task_group() -> None:
    with new_dag() as dag:

        @task_group
        def per_table(table: int) -> None:
            with HoldSlots("s", pool="warehouse", priority=7):
                Work(task_id="load", value=table)

        per_table.expand(table=[1, 2])

    ti = instance_of(dag, "per_table.s.acquire_slots", map_index=1)

    assert (ti.pool, ti.pool_slots, ti.priority_weight, ti.map_index) == ("warehouse", 1, 7, 1)


def test_what_the_acquire_says_reaches_its_task_instance() -> None:
    with new_dag() as dag, HoldSlots("s", pool="warehouse", slots=2, priority=5, max_wait=HOUR):
        Work(task_id="load", pool="api")

    ti = instance_of(dag, "s.acquire_slots")

    assert (ti.pool, ti.pool_slots, ti.priority_weight) == ("warehouse", 2, 5)
    assert ti.executor_config == {"slotgroups": {"max_wait_seconds": 3600.0}}


def test_an_acquire_goes_by_the_default_pool_of_its_dag() -> None:
    with new_dag(default_args={"pool": "warehouse"}) as dag:
        AcquireSlotsOperator(task_id="acquire") >> Work(task_id="load", pool="api")

    assert instance_of(dag, "acquire").pool == "warehouse"


def section_amid_default_args() -> DAG:
    default_args: dict[str, Any] = {
        **slot_args("api", slots=3, priority=9, max_wait=HOUR, executor_config={"pod_override": 1}),
        "execution_timeout": timedelta(seconds=3),
        "max_active_tis_per_dag": 1,
        "max_active_tis_per_dagrun": 1,
        "on_execute_callback": note,
        "on_success_callback": note,
        "on_failure_callback": note,
        "on_retry_callback": note,
        "on_skipped_callback": note,
        "outlets": [],
        "inlets": [],
        "retries": 2,
    }
    with new_dag(default_args=default_args) as dag, HoldSlots("s", pool="warehouse"):
        Work(task_id="load")
    return dag


def test_default_args_do_not_disturb_an_acquire() -> None:
    acquire = stored(section_amid_default_args()).get_task("s.acquire_slots")

    assert not acquire.execution_timeout
    assert acquire.max_active_tis_per_dag is None
    assert acquire.max_active_tis_per_dagrun is None
    assert (acquire.pool, acquire.pool_slots) == ("warehouse", 1)
    assert acquire.executor_config == {}, "their max_wait is that of tasks that run"
    assert acquire.retries == 2
    assert acquire.priority_weight == 9, "what it does not say itself, default_args say, as ever"


def test_default_args_leave_the_release_without_a_worker() -> None:
    dag = stored(section_amid_default_args())

    assert not TaskInstance.is_task_schedulable(dag.get_task("s.release_slots"))
    assert TaskInstance.is_task_schedulable(dag.get_task("s.acquire_slots"))
    assert dag.get_task("s.release_slots").is_teardown
    assert dag.get_task("s.release_slots").trigger_rule == TriggerRule.ALL_DONE_SETUP_SUCCESS


def test_default_args_reach_the_tasks_inside() -> None:
    inside = stored(section_amid_default_args()).get_task("s.load")

    assert (inside.pool, inside.pool_slots, inside.max_active_tis_per_dag) == ("api", 3, 1)
    assert inside.execution_timeout == timedelta(seconds=3)


def test_inlets_outlets_and_callbacks_given_to_a_release_itself_need_no_worker_either() -> None:
    with new_dag() as dag:
        release = ReleaseSlotsOperator(
            task_id="release", on_success_callback=note, on_execute_callback=[note]
        )
        AcquireSlotsOperator(task_id="acquire", pool="warehouse") >> release

    assert not TaskInstance.is_task_schedulable(stored(dag).get_task("release"))


def test_the_scheduler_defers_an_acquire_itself() -> None:
    with new_dag() as dag:
        AcquireSlotsOperator(task_id="acquire", pool="warehouse")

    acquire = stored(dag).get_task("acquire")

    arguments = acquire.start_trigger_args
    row = Trigger(classpath=arguments.trigger_cls, kwargs=arguments.trigger_kwargs)

    assert acquire.start_from_trigger
    assert arguments.next_method == "execute_complete"
    assert arguments.timeout is None
    assert row.classpath == SLOT_TRIGGER_PATH
    assert row.kwargs == {}, "a triggerer makes it without arguments"
    assert not getattr(acquire, "end_from_trigger", False), "a listener would make Airflow refuse the DAG"


def test_many_sections_are_settled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    settled: list[DAG] = []
    monkeypatch.setattr("airflow_slotgroups.operators.sections.settle_sections", settled.append)
    with new_dag() as dag:
        for number in range(10):
            with HoldSlots(f"s{number}", pool="warehouse"):
                Work(task_id="load")

    parse(dag)

    assert settled == [dag]


TIMEOUTS = """
import json
from airflow.sdk.exceptions import DuplicateTaskIdFound
from airflow.serialization.serialized_objects import DagSerialization
from airflow_slotgroups import HoldSlots
from tests.unit.authoring import Work, new_dag, stored
with new_dag() as dag, HoldSlots("s", pool="warehouse"):
    Work(task_id="load")
print(json.dumps({task.task_id: task.execution_timeout.total_seconds() for task in stored(dag).tasks}))
"""


def test_the_default_execution_timeout_does_not_touch_an_acquire(tmp_path: Path) -> None:
    """A trigger's timeout is execution_timeout, and a None would be filled in when the DAG is read."""
    done = subprocess.run(
        [sys.executable, "-c", TIMEOUTS],
        env={
            **os.environ,
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__CORE__DEFAULT_TASK_EXECUTION_TIMEOUT": "60",
            "PYTHONWARNINGS": "default",
        },
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    timeouts = json.loads(done.stdout.splitlines()[-1])

    assert timeouts["s.load"] == 60
    assert timeouts["s.acquire_slots"] == 0, "none, for Airflow"


def test_a_section_may_stand_in_a_dag_that_fails_fast() -> None:
    """Such a DAG takes few trigger rules; that of a teardown is one."""
    with new_dag(fail_fast=True) as dag, HoldSlots("s", pool="warehouse"):
        Work(task_id="load")

    assert stored(dag).get_task("s.release_slots").is_teardown


def test_a_section_takes_what_a_task_group_takes() -> None:
    with (
        new_dag() as dag,
        HoldSlots("s", pool="warehouse", prefix_group_id=False, default_args={"pool": "api"}, tooltip="t"),
    ):
        Work(task_id="load")

    assert set(parse(dag).task_ids) == {"acquire_slots", "load", "release_slots"}
    assert dag.get_task("load").pool == "api"
    assert dag.get_task("acquire_slots").pool == "warehouse"

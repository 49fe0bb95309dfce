"""The DAGs of the random histories: what takes part in them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_slotgroups import AcquireSlotsOperator, ReleaseSlotsOperator, slot_args
from tests.integration.support.dags import START, Work, make_dag
from tests.integration.support.world import Key

RUNS = {
    "alpha": ("one", "two"),
    "beta": ("one",),
    "gamma": ("one", "two"),
    "delta": ("one", "two"),
    "closed_section": ("one", "two"),
    "open_section": ("one",),
}
TASKS: dict[str, dict[str, dict[str, Any]]] = {
    "alpha": {
        "low": {"pool": "P", "priority_weight": 1},
        "mid": {**slot_args("P", max_wait=timedelta(seconds=2)), "priority_weight": 2, "retries": 1},
        "high": {"pool": "P", "priority_weight": 5},
        "wide": {"pool": "P", "priority_weight": 3, "pool_slots": 2},
    },
    "beta": {
        "first": {"pool": "P", "priority_weight": 4},
        "second": {**slot_args("P", max_wait=timedelta(seconds=50)), "priority_weight": 1},
    },
    "gamma": {
        "single": {"pool": "P", "priority_weight": 3, "max_active_tis_per_dag": 1},
        "per_run": {
            **slot_args("P", max_wait=timedelta(seconds=100)),
            "priority_weight": 2,
            "max_active_tis_per_dagrun": 1,
            "retries": 1,
        },
    },
    "delta": {
        "direct": {"pool": "P.running", "priority_weight": 9},
        "other": {**slot_args("Q/q x", max_wait=timedelta(seconds=2)), "priority_weight": 2, "retries": 2},
    },
}
SECTIONS: dict[str, dict[str, Any]] = {
    "closed_section": {
        "pool": "P",
        "priority": 4,
        "max_wait": timedelta(seconds=50),
        "retries": 1,
        "retry_delay": timedelta(0),
    },
    "open_section": {"pool": "P", "priority": 2, "slots": 2},
}
"""DAGs of a section each, with the arguments of its acquire; without a release, the run's end ends it."""
ACQUIRE, INNER, RELEASE = "acquire", "inner", "release"
OUTSIDE = "outside"
"""The pool of a section's task: no group."""
DAG_IDS = sorted(RUNS)
MAPPED = {"single": 3, "per_run": 2}


def history_dags() -> list[DAG]:
    """The DAGs whose tasks take part; one may run a single task at a time, some tasks wait so long alone."""
    return [
        make_dag(dag_id, tasks, max_active_tasks=1 if dag_id == "beta" else 16)
        for dag_id, tasks in TASKS.items()
    ] + [section_dag(dag_id, arguments) for dag_id, arguments in SECTIONS.items()]


def section_dag(dag_id: str, arguments: dict[str, Any]) -> DAG:
    """A DAG of one section."""
    with DAG(dag_id, schedule=None, start_date=START) as dag:
        acquire = AcquireSlotsOperator(task_id=ACQUIRE, **arguments)
        inner = acquire >> Work(task_id=INNER, pool=OUTSIDE)
        if dag_id == "closed_section":
            inner >> ReleaseSlotsOperator(task_id=RELEASE).as_teardown(setups=acquire)
    return dag


def task_instances() -> Iterable[tuple[Key, dict[str, Any]]]:
    """All task instances, with what their rows say of their tasks."""
    for dag in history_dags():
        for run_id in RUNS[dag.dag_id]:
            for task in dag.tasks:
                for map_index in range(MAPPED[task.task_id]) if task.task_id in MAPPED else (-1,):
                    yield Key(dag.dag_id, run_id, task.task_id, map_index), row_of(task)


def row_of(task: Any) -> dict[str, Any]:
    """Columns that Airflow copies from a task when it makes its instances."""
    names = ("pool", "pool_slots", "priority_weight", "executor_config")
    return {"operator": task.task_type, **{name: getattr(task, name) for name in names}}

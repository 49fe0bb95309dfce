"""The DAGs of the random histories: what takes part in them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_slotgroups import slot_args
from tests.integration.support.dags import make_dag
from tests.integration.support.world import Key

RUNS = {"alpha": ("one", "two"), "beta": ("one",), "gamma": ("one", "two"), "delta": ("one", "two")}
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
MAPPED = {"single": 3, "per_run": 2}


def history_dags() -> list[DAG]:
    """The DAGs whose tasks take part; one may run a single task at a time, some tasks wait so long alone."""
    return [
        make_dag(dag_id, tasks, max_active_tasks=1 if dag_id == "beta" else 16)
        for dag_id, tasks in TASKS.items()
    ]


def keys() -> Iterable[tuple[Key, dict[str, Any]]]:
    """All task instances with the arguments of their task."""
    for dag_id, tasks in TASKS.items():
        for run_id in RUNS[dag_id]:
            for task_id, values in tasks.items():
                for map_index in range(MAPPED[task_id]) if task_id in MAPPED else (-1,):
                    yield Key(dag_id, run_id, task_id, map_index), values

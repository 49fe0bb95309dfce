"""What becomes of a DAG that an author writes: as the DAG processor stores it, and as a task instance gets it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from airflow.models.taskinstance import TaskInstance
from airflow.sdk import DAG
from airflow.sdk.bases.operator import BaseOperator
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.serialized_objects import DagSerialization

START = datetime(2025, 1, 1, tzinfo=timezone.utc)


class Work(BaseOperator):
    """Stands for any operator that a worker runs."""

    def __init__(self, *, value: object = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.value = value

    def execute(self, context: Any) -> None:
        """Nothing to do."""


def new_dag(dag_id: str = "nightly", **arguments: Any) -> DAG:
    """A DAG to open with `with`."""
    return DAG(dag_id, schedule=None, start_date=START, **arguments)


def parse(dag: DAG) -> DAG:
    """What Airflow does with a DAG that it finds in a file, in its order (`DagBag`)."""
    dag.validate()
    dag.check_cycle()
    dag.resolve_template_files()
    return dag


def stored(dag: DAG) -> SerializedDAG:
    """The DAG as scheduler and API server read it."""
    return DagSerialization.deserialize_dag(DagSerialization.serialize_dag(parse(dag)))


def instance_of(dag: DAG, task_id: str, map_index: int = -1) -> TaskInstance:
    """The task instance that the scheduler makes."""
    task = stored(dag).get_task(task_id)
    return TaskInstance(task, dag_version_id=uuid4(), run_id="r", map_index=map_index)

"""Real DAGs in the database, serialized as Airflow's DAG processor does it: what clearing goes by."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa
from airflow.models.dag import DagModel
from airflow.models.dag_version import DagVersion
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.sdk import DAG, BaseOperator
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.serialized_objects import LazyDeserializedDAG

from tests.integration.support.databases import Database
from tests.integration.support.world import BUNDLE

START = datetime(2025, 1, 1, tzinfo=timezone.utc)


class Work(BaseOperator):
    """Stands for any operator that a worker runs."""

    def execute(self, context: Any) -> None:
        """Never called: the tests make the moves of a worker themselves."""


def make_dag(dag_id: str, tasks: dict[str, dict[str, Any]], **arguments: Any) -> DAG:
    """A DAG of tasks beside each other; their arguments by task id."""
    with DAG(dag_id, schedule=None, start_date=START, **arguments) as dag:
        for task_id, values in tasks.items():
            Work(task_id=task_id, weight_rule="absolute", **values)
    return dag


def write_dags(database: Database, dags: Iterable[DAG]) -> None:
    """Store them as a DAG processor would."""
    with database.session() as session:
        if session.get(DagBundleModel, BUNDLE) is None:
            session.add(DagBundleModel(name=BUNDLE))
            session.flush()
        for dag in dags:
            SerializedDAG.bulk_write_to_db(BUNDLE, None, [dag], session=session)
            SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), BUNDLE, session=session)
    with database.session() as session:
        session.execute(sa.update(DagModel.__table__).values(is_paused=False, is_stale=False))


def pin_runs(database: Database) -> None:
    """Tie every run and its task instances to the latest version of its DAG, as making a run does."""
    with database.session() as session:
        session.execute(sa.update(DagRun.__table__).values(created_dag_version_id=latest_version(DagRun)))
        session.execute(sa.update(TaskInstance.__table__).values(dag_version_id=latest_version(TaskInstance)))


def latest_version(model: Any) -> Any:
    """The id of the latest version of the DAG that a row belongs to."""
    return (
        sa.select(DagVersion.id)
        .where(DagVersion.dag_id == model.dag_id)
        .order_by(DagVersion.version_number.desc())
        .limit(1)
        .scalar_subquery()
    )

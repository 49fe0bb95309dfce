"""Limits of tasks that have changed while their requests wait: the DAG was edited."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import and_, or_, select, update
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.dags import NO_LIMITS, TaskLimitReader, TaskLimits
from airflow_slotgroups.airflow_core.tables import DagModel
from airflow_slotgroups.domain.snapshot import RunKey
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import TASK, WAITING
from airflow_slotgroups.store.requests import lock_requests

TaskKey = tuple[RunKey, str]


def find_changed_limits(
    session: Session, names: Collection[str], reader: TaskLimitReader
) -> dict[TaskKey, TaskLimits]:
    """Find the waiting tasks whose DAG says now something else than at their discovery.

    :return: their present limits, by run and task id.
    """
    stored = stored_limits(session, names)
    present = reader.read(session, stored.keys())
    now = {task: present.get(task, NO_LIMITS) for task in stored}
    return {task: now[task] for task, kept in stored.items() if kept != {now[task]}}


def stored_limits(session: Session, names: Collection[str]) -> dict[TaskKey, set[TaskLimits]]:
    """Read by which limits tasks wait; only of DAGs that have such limits, or had them."""
    per_dag, per_dagrun = R.max_active_tis_per_dag, R.max_active_tis_per_dagrun
    limited = or_(DagModel.has_task_concurrency_limits, per_dag.is_not(None), per_dagrun.is_not(None))
    query = (
        select(R.dag_id, R.run_id, R.task_id, per_dag, per_dagrun)
        .join(DagModel, DagModel.dag_id == R.dag_id)
        .where(R.state == WAITING, R.kind == TASK, R.pool.in_(names), limited)
        .distinct()
    )
    stored: dict[TaskKey, set[TaskLimits]] = {}
    for dag_id, run_id, task_id, *limits in session.execute(query):
        stored.setdefault((RunKey(dag_id, run_id), task_id), set()).add(TaskLimits(*limits))
    return stored


def write_limits(session: Session, names: Collection[str], found: Mapping[TaskKey, TaskLimits]) -> None:
    """Let the waiting requests of those tasks wait by their present limits."""
    for (run, task_id), limits in found.items():
        same = and_(R.dag_id == run.dag_id, R.run_id == run.run_id, R.task_id == task_id)
        ids = session.scalars(select(R.id).where(R.state == WAITING, R.pool.in_(names), same)).all()
        session.execute(
            update(R)
            .where(R.id.in_(lock_requests(session, ids)))
            .values(max_active_tis_per_dag=limits.per_dag, max_active_tis_per_dagrun=limits.per_dagrun)
            .execution_options(synchronize_session=False)
        )

"""What a serialized DAG says of its tasks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from airflow.configuration import conf
from airflow.models.dagbag import DBDagBag
from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.tables import DagModel, DagRun
from airflow_slotgroups.domain.names import RELEASE_OPERATOR
from airflow_slotgroups.domain.snapshot import RunKey


class TaskLimits(NamedTuple):
    """A task's own limits; None for no limit."""

    per_dag: int | None = None
    per_dagrun: int | None = None


NO_LIMITS = TaskLimits()


class TaskLimitReader:
    """Reads max_active_tis_per_dag and max_active_tis_per_dagrun from the DAG version that a run uses.

    Keeps the DAGs it has read, as the scheduler does; DAGs without such limits are never loaded.
    """

    def __init__(self) -> None:
        self.dags = DBDagBag(load_op_links=False)

    def read(
        self, session: Session, tasks: Collection[tuple[RunKey, str]]
    ) -> dict[tuple[RunKey, str], TaskLimits]:
        """Return the limits of tasks that have one, by run and task id."""
        runs = self.limited_runs(session, {run for run, _ in tasks})
        found: dict[tuple[RunKey, str], TaskLimits] = {}
        for run, task_id in tasks:
            if run in runs and (limits := self.limits_of(session, runs[run], task_id)) != NO_LIMITS:
                found[run, task_id] = limits
        return found

    def limited_runs(self, session: Session, runs: Collection[RunKey]) -> dict[RunKey, DagRun]:
        """Read the runs whose DAG has limits by task at all."""
        by_dag: dict[str, list[str]] = {}
        for run in runs:
            by_dag.setdefault(run.dag_id, []).append(run.run_id)
        some = [and_(DagRun.dag_id == dag, DagRun.run_id.in_(ids)) for dag, ids in by_dag.items()]
        if not some:
            return {}
        query = (
            select(DagRun)
            .join(DagModel, DagModel.dag_id == DagRun.dag_id)
            .where(DagModel.has_task_concurrency_limits, or_(*some))
        )
        return {RunKey(run.dag_id, run.run_id): run for run in session.scalars(query)}

    def limits_of(self, session: Session, run: DagRun, task_id: str) -> TaskLimits:
        """Read one task's limits; a task that the DAG no longer has is left to the scheduler to fail."""
        dag = self.dags.get_dag_for_run(dag_run=run, session=session)
        if dag is None or not dag.has_task(task_id):
            return NO_LIMITS
        task = dag.get_task(task_id)
        return TaskLimits(task.max_active_tis_per_dag, task.max_active_tis_per_dagrun)


def dag_of_run(session: Session, run: RunKey) -> Any:
    """Return the serialized DAG, of the version that a run uses; None when either is gone."""
    query = select(DagRun).where(DagRun.dag_id == run.dag_id, DagRun.run_id == run.run_id)
    dag_run = session.scalars(query).one_or_none()
    return dag_run and DBDagBag(load_op_links=False).get_dag_for_run(dag_run=dag_run, session=session)


def release_of(session: Session, run: RunKey, acquire_task_id: str) -> str | None:
    """Name the task that ends the hold of an acquire: its teardown; None when the run's end does."""
    dag = dag_of_run(session, run)
    if dag is None or not dag.has_task(acquire_task_id):
        return None
    behind = [dag.get_task(task_id) for task_id in dag.get_task(acquire_task_id).downstream_task_ids]
    releases = [t.task_id for t in behind if t.is_teardown and t.task_type == RELEASE_OPERATOR]
    return min(releases, default=None)


def tasks_between(
    session: Session, run: RunKey, acquire_task_id: str, release_task_id: str | None
) -> set[str]:
    """Name the tasks of a section: behind its acquire, and before its release if it has one."""
    dag = dag_of_run(session, run)
    if dag is None or not dag.has_task(acquire_task_id):
        return set()
    behind: set[str] = dag.get_task(acquire_task_id).get_flat_relative_ids(upstream=False)
    if release_task_id is None or not dag.has_task(release_task_id):
        return behind
    before: set[str] = dag.get_task(release_task_id).get_flat_relative_ids(upstream=True)
    return behind & before


def multi_team() -> bool:
    """Tell whether pools and DAGs belong to teams."""
    return bool(conf.getboolean("core", "multi_team"))

"""What a serialized DAG says of its tasks."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from airflow.configuration import conf
from airflow.models.dag_version import DagVersion
from airflow.models.dagbag import DBDagBag
from airflow.models.serialized_dag import SerializedDagModel
from sqlalchemy import and_, func, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.tables import DagModel, DagRun, Pool
from airflow_slotgroups.domain.names import RELEASE_OPERATOR
from airflow_slotgroups.domain.snapshot import RunKey

log = logging.getLogger(__name__)


class TaskLimits(NamedTuple):
    """A task's own limits; None for no limit."""

    per_dag: int | None = None
    per_dagrun: int | None = None


NO_LIMITS = TaskLimits()
DAGS_AT_ONCE = 200
"""In one statement; SQLite takes expressions of 1000 levels."""


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
        found: dict[RunKey, DagRun] = {}
        for start in range(0, len(some), DAGS_AT_ONCE):
            query = (
                select(DagRun)
                .join(DagModel, DagModel.dag_id == DagRun.dag_id)
                .where(DagModel.has_task_concurrency_limits, or_(*some[start : start + DAGS_AT_ONCE]))
            )
            found |= {RunKey(run.dag_id, run.run_id): run for run in session.scalars(query)}
        return found

    def limits_of(self, session: Session, run: DagRun, task_id: str) -> TaskLimits:
        """Read one task's limits; a task that the DAG no longer has is left to the scheduler to fail."""
        dag = readable_dag(self.dags, session, run)
        if dag is None or not dag.has_task(task_id):
            return NO_LIMITS
        task = dag.get_task(task_id)
        return TaskLimits(task.max_active_tis_per_dag, task.max_active_tis_per_dagrun)


def dag_of_run(session: Session, run: RunKey) -> Any:
    """Return the serialized DAG, of the version that a run uses; None when either is gone."""
    query = select(DagRun).where(DagRun.dag_id == run.dag_id, DagRun.run_id == run.run_id)
    dag_run = session.scalars(query).one_or_none()
    return dag_run and readable_dag(DBDagBag(load_op_links=False), session, dag_run)


def readable_dag(dags: DBDagBag, session: Session, dag_run: DagRun) -> Any:
    """Return the serialized DAG of a run; None when it is gone, or when this Airflow can not read it.

    One DAG that can not be read must not keep the tasks of all others waiting. No error of the database is
    kept back.
    """
    try:
        return dags.get_dag_for_run(dag_run=dag_run, session=session)
    except SQLAlchemyError:
        raise
    except Exception as error:
        log.error("The serialized DAG '%s' can not be read: %s", dag_run.dag_id, error)
        return None


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


class NamedIn(NamedTuple):
    """A task whose DAG says in which pool it runs."""

    dag_id: str
    dag_paused: bool
    task_id: str
    pool: str
    slots: int


def tasks_naming(session: Session, pools: Collection[str]) -> Iterator[NamedIn]:
    """Find, in the latest version of every active DAG, the tasks that name one of some pools.

    The stored JSON is read as it is, a few DAGs at a time: making DAGs of it takes ten times as long.
    """
    latest = (
        select(DagVersion.dag_id, func.max(DagVersion.version_number).label("number"))
        .group_by(DagVersion.dag_id)
        .subquery()
    )
    query = (
        select(SerializedDagModel, DagModel.is_paused)
        .join(DagVersion, DagVersion.id == SerializedDagModel.dag_version_id)
        .join(
            latest, and_(latest.c.dag_id == DagVersion.dag_id, latest.c.number == DagVersion.version_number)
        )
        .join(DagModel, and_(DagModel.dag_id == DagVersion.dag_id, DagModel.is_stale.is_(False)))
        .order_by(DagModel.dag_id)
        .execution_options(yield_per=20)
    )
    for row, paused in session.execute(query):
        for task_id, pool, slots in pools_named(row.data or {}):
            if pool in pools:
                yield NamedIn(row.dag_id, bool(paused), task_id, pool, slots)


def pools_named(data: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield task id, pool and slots of each task of a serialized DAG; what is the default is not in it."""
    defaults = data.get("client_defaults", {}).get("tasks", {})
    for encoded in data.get("dag", {}).get("tasks", ()):
        task = encoded["__var"]
        said = {**defaults, **task, **task.get("partial_kwargs", {})}
        yield task["task_id"], said.get("pool", Pool.DEFAULT_POOL_NAME), said.get("pool_slots", 1)


def multi_team() -> bool:
    """Tell whether pools and DAGs belong to teams."""
    return bool(conf.getboolean("core", "multi_team"))

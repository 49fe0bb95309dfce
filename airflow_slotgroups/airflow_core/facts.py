"""Everything that Airflow limits one task instance by, read for `explain`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from airflow.configuration import conf
from airflow.jobs.job import Job, JobState
from airflow.models.dagbag import DBDagBag
from airflow.models.pool import Pool
from airflow.models.taskreschedule import TaskReschedule
from airflow.ti_deps.dep_context import DepContext
from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.dags import multi_team
from airflow_slotgroups.airflow_core.jobs import SCHEDULER
from airflow_slotgroups.airflow_core.tables import (
    COUNTED_FOR_RUN,
    COUNTED_FOR_TASK,
    RUNNING_RUN,
    TI,
    DagModel,
    DagRun,
    Trigger,
)
from airflow_slotgroups.domain.errors import UnknownTaskInstanceError
from airflow_slotgroups.domain.explain import FINISHED, GroupFacts, PastFacts, PoolFacts, TaskFacts
from airflow_slotgroups.domain.snapshot import Limit

TRIGGERER = "TriggererJob"


def find_task_instance(session: Session, dag_id: str, run_id: str, task_id: str, map_index: int) -> TI:
    """Read a task instance.

    :raises UnknownTaskInstanceError: there is none.
    """
    query = select(TI).where(
        TI.dag_id == dag_id, TI.run_id == run_id, TI.task_id == task_id, TI.map_index == map_index
    )
    found = session.scalars(query).unique().one_or_none()
    if found is None:
        raise UnknownTaskInstanceError(dag_id, run_id, task_id, map_index)
    return found


def read_facts(
    session: Session,
    ti: TI,
    now: datetime,
    *,
    group_of_pool: str | None,
    group: GroupFacts | None,
    past: PastFacts | None,
) -> TaskFacts:
    """Read the facts of one task instance.

    :param group_of_pool: the slot group that its pool belongs to.
    :param group: where it stands there.
    :param past: what became of its last request.
    """
    dag_model = session.get(DagModel, ti.dag_id)
    task = task_of(session, ti)
    return TaskFacts(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=ti.map_index,
        state=ti.state,
        now=now,
        slots=ti.pool_slots,
        try_number=ti.try_number,
        dag_paused=bool(dag_model and dag_model.is_paused),
        dag_team=DagModel.get_team_name(ti.dag_id, session=session) if multi_team() else None,
        run_state=ti.dag_run.state,
        run_after=ti.dag_run.run_after,
        unmet=unmet_dependencies(session, ti, task),
        upstream=unfinished_upstream(session, ti, task),
        due_at=due_at(session, ti, task),
        queued_at=ti.queued_dttm,
        started_at=ti.start_date,
        hostname=ti.hostname,
        executor=ti.executor,
        trigger=session.scalar(select(Trigger.classpath).where(Trigger.id == ti.trigger_id)),
        triggerer_alive=is_alive(session, TRIGGERER),
        scheduler_alive=is_alive(session, SCHEDULER),
        runs=Limit(count_runs(session, ti.dag_id), dag_model.max_active_runs if dag_model else None),
        parallelism=parallelism(session),
        run_limit=Limit(
            count(session, COUNTED_FOR_RUN, TI.dag_id == ti.dag_id, TI.run_id == ti.run_id),
            dag_model.max_active_tasks if dag_model else None,
        ),
        task_limit=task_limit(session, ti, task, same_run=False),
        task_run_limit=task_limit(session, ti, task, same_run=True),
        pool=pool_facts(session, ti.pool, group_of_pool),
        group=group,
        past=past,
    )


def task_of(session: Session, ti: TI) -> Any:
    """The serialized task, of the DAG version that the run uses; None when it is gone."""
    dag = DBDagBag(load_op_links=False).get_dag_for_run(dag_run=ti.dag_run, session=session)
    return dag.get_task(ti.task_id) if dag is not None and dag.has_task(ti.task_id) else None


def unmet_dependencies(session: Session, ti: TI, task: Any) -> tuple[str, ...]:
    """What Airflow's own checks say of a task instance that is not scheduled yet."""
    if ti.state is not None or task is None:
        return ()
    ti.task = task
    failed = ti.get_failed_dep_statuses(dep_context=DepContext(), session=session)
    return tuple(f"{status.dep_name}: {status.reason}" for status in failed)


def unfinished_upstream(session: Session, ti: TI, task: Any) -> tuple[tuple[str, str], ...]:
    """Direct upstream task instances that are not done, by name."""
    if ti.state is not None or task is None or not task.upstream_task_ids:
        return ()
    query = (
        select(TI.task_id, TI.map_index, TI.state)
        .where(TI.dag_id == ti.dag_id, TI.run_id == ti.run_id, TI.task_id.in_(task.upstream_task_ids))
        .order_by(TI.task_id, TI.map_index)
    )
    return tuple(not_done(session.execute(query)))


def not_done(rows: Any) -> Iterator[tuple[str, str]]:
    """Name those that have not ended."""
    for task_id, map_index, state in rows:
        if state not in FINISHED:
            yield (task_id if map_index < 0 else f"{task_id}[{map_index}]"), state or "not scheduled yet"


def due_at(session: Session, ti: TI, task: Any) -> datetime | None:
    """When a retry or a reschedule is due."""
    if ti.state == "up_for_retry" and task is not None:
        ti.task = task
        when: datetime | None = ti.next_retry_datetime()
        return when
    if ti.state == "up_for_reschedule":
        query = select(func.max(TaskReschedule.reschedule_date)).where(TaskReschedule.ti_id == ti.id)
        return session.scalar(query)
    return None


def is_alive(session: Session, job_type: str) -> bool:
    """Tell whether a job of that type was heard of lately, as Airflow's own health check does."""
    query = (
        select(Job)
        .where(Job.job_type == job_type, Job.state == JobState.RUNNING)
        .order_by(Job.latest_heartbeat.desc())
        .limit(1)
    )
    job = session.scalars(query).one_or_none()
    return job is not None and job.is_alive()


def count(session: Session, states: tuple[str, ...], *where: ColumnElement[bool]) -> int:
    """Count task instances in some states."""
    return session.scalar(select(func.count()).select_from(TI).where(TI.state.in_(states), and_(*where))) or 0


def count_runs(session: Session, dag_id: str) -> int:
    """Count the running runs of a DAG."""
    query = select(func.count()).where(DagRun.dag_id == dag_id, DagRun.state == RUNNING_RUN)
    return session.scalar(query) or 0


def parallelism(session: Session) -> Limit:
    """What is active in the cluster, against [core] parallelism of all schedulers."""
    schedulers = session.scalar(
        select(func.count()).where(Job.job_type == SCHEDULER, Job.state == JobState.RUNNING)
    )
    most = conf.getint("core", "parallelism") * max(1, schedulers or 0)
    active = session.scalar(select(func.count()).select_from(TI).where(TI.state.in_(COUNTED_FOR_RUN)))
    return Limit(active or 0, most if most > 0 else None)


def task_limit(session: Session, ti: TI, task: Any, *, same_run: bool) -> Limit:
    """max_active_tis_per_dag, or per dagrun."""
    most = task and (task.max_active_tis_per_dagrun if same_run else task.max_active_tis_per_dag)
    if not most:
        return Limit()
    where = [TI.dag_id == ti.dag_id, TI.task_id == ti.task_id]
    if same_run:
        where.append(TI.run_id == ti.run_id)
    return Limit(count(session, COUNTED_FOR_TASK, *where), most)


def pool_facts(session: Session, name: str, group: str | None) -> PoolFacts:
    """The pool as Airflow counts it."""
    pool = Pool.get_pool(name, session=session)
    if pool is None:
        return PoolFacts(name, exists=False, group=group)
    team = pool.team_name if multi_team() else None
    return PoolFacts(name, True, pool.slots, pool.occupied_slots(session=session), team, group)

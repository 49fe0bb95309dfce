"""Airflow's own moves on `task_instance`, with no process of Airflow: real code of it where that can be called."""

from __future__ import annotations

from typing import Any
from unittest import mock

import sqlalchemy as sa
from airflow.executors.executor_utils import ExecutorName
from airflow.jobs.job import Job, JobState
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.dag import DagModel
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import is_locked
from tests.integration.support.clock import FakeClock
from tests.integration.support.databases import Database
from tests.integration.support.world import Key, is_key

TI = TaskInstance
BETWEEN = ("up_for_retry", "up_for_reschedule")
FINISHED = ("success", "failed", "skipped", "removed", "upstream_failed")


class FakeScheduler:
    """Scheduler, executor, workers, triggerer and API server, one move at a time.

    The critical section is Airflow's own code on an executor that takes everything. The other moves write
    the columns that Airflow 3.3 writes in its Execution API and its scheduler loop.
    """

    def __init__(self, database: Database, clock: FakeClock) -> None:
        self.database = database
        self.clock = clock
        self.runner = self.make_runner()
        self.dags = DBDagBag(load_op_links=False)

    def make_runner(self) -> SchedulerJobRunner:
        """A runner whose job stands in the database as that of a living scheduler."""
        executor = mock.MagicMock(
            slots_available=1000, pre_assigns_external_executor_id=False, team_name=None
        )
        executor.name = ExecutorName("airflow.executors.local_executor.LocalExecutor", alias="LocalExecutor")
        job = Job(job_type=SchedulerJobRunner.job_type, state=JobState.RUNNING)
        with self.database.session() as session:
            session.add(job)
        return SchedulerJobRunner(job=job, executors=[executor])

    # --- The scheduler's loop.

    def due(self, session: Session, key: Key) -> None:
        """A task's turn has come, for the first time or again: `DagRun.schedule_tis`."""
        again = sa.case((TI.state == "up_for_reschedule", TI.try_number), else_=TI.try_number + 1)
        waiting = sa.or_(TI.state.is_(None), TI.state.in_(BETWEEN))
        session.execute(
            sa.update(TI.__table__)
            .where(is_key(key), waiting)
            # In this order, and MariaDB reads what it has just written: the state comes last.
            .ordered_values(
                (TI.try_number, again), (TI.scheduled_dttm, self.clock.now), (TI.state, "scheduled")
            )
        )

    def look_at_run(self, session: Session, dag_id: str, run_id: str) -> None:
        """Schedule what is due in a run, by Airflow's own decisions and statements, at our moment.

        Acquires are deferred by it, and releases end at once; neither needs a worker.
        """
        run = session.scalars(sa.select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)).one()
        run.dag = self.dags.get_dag_for_run(dag_run=run, session=session)
        decision = run.task_instance_scheduling_decisions(session=session)
        run.schedule_tis(decision.schedulable_tis, session=session)
        session.flush()
        moments = {"scheduled_dttm": self.clock.now, "start_date": self.clock.now}
        due = [ti.id for ti in decision.schedulable_tis]
        session.execute(sa.update(TI.__table__).where(TI.id.in_(due)).values(moments))
        if not decision.unfinished_tis:
            self.set_run(session, dag_id, run_id, "success")

    def critical_section(self) -> int:
        """Queue what may start; the number of task instances. Nothing when somebody holds the pools."""
        try:
            with self.database.session() as session:
                return self.queue_in(session)
        except sa.exc.OperationalError as error:
            if not is_locked(error):
                raise
            return 0

    def queue_in(self, session: Session) -> int:
        """Queue in the caller's transaction, which goes on holding the rows of `slot_pool`."""
        return len(self.runner._executable_task_instances_to_queued(32, session=session))

    def requeue_stuck(self, session: Session, key: Key) -> None:
        """A task was queued for too long (S29): Airflow's own statement."""
        self.runner._reschedule_stuck_task(session.scalars(sa.select(TI).where(is_key(key))).one(), session)

    def reset_orphan(self, session: Session, key: Key) -> None:
        """The scheduler that queued it is dead: `adopt_or_reset_orphaned_tasks`, for one task."""
        ti = session.scalars(sa.select(TI).where(is_key(key))).one()
        ti.prepare_db_for_next_try(session)
        ti.state = None
        ti.queued_by_job_id = None
        ti.external_executor_id = None
        ti.clear_next_method_args()

    # --- Workers, through the Execution API, and the triggerer.

    def start(self, session: Session, key: Key) -> None:
        """A worker begins."""
        self.move(session, key, ("queued",), state="running", start_date=self.clock.now, end_date=None)

    def defer(self, session: Session, key: Key) -> None:
        """The operator defers on its own account."""
        self.move(session, key, ("running",), state="deferred", next_method="execute_complete")

    def ask(self, session: Session, key: Key) -> None:
        """The operator waits for a person."""
        self.move(session, key, ("running",), state="awaiting_input", next_method="execute_complete")

    def resume(self, session: Session, key: Key) -> None:
        """Its event has come."""
        parked = ("deferred", "awaiting_input")
        self.move(session, key, parked, state="scheduled", scheduled_dttm=self.clock.now)

    def end(self, session: Session, key: Key, state: str) -> None:
        """A try ends for good; `skipped` also for waiters, by a branch or a trigger rule."""
        self.move(
            session,
            key,
            ("running", "restarting", "queued"),
            state=state,
            end_date=self.clock.now,
            next_method=None,
            next_kwargs=None,
        )

    def retry(self, session: Session, key: Key) -> None:
        """A try fails and another one will follow; Airflow gives the row a new id."""
        ti = session.scalars(sa.select(TI).where(is_key(key))).one()
        ti.end_date = self.clock.now
        ti.prepare_db_for_next_try(session)
        ti.state = "up_for_retry"
        ti.clear_next_method_args()

    def reschedule(self, session: Session, key: Key) -> None:
        """A sensor in reschedule mode comes again later, with the same try number."""
        self.move(session, key, ("running",), state="up_for_reschedule", next_method=None, next_kwargs=None)

    # --- People, through UI, API and CLI.

    def mark(self, session: Session, key: Key, state: str) -> None:
        """Set a state by hand, whatever it was."""
        session.execute(
            sa.update(TI.__table__).where(is_key(key)).values(state=state, end_date=self.clock.now)
        )

    def clear(self, session: Session, *keys: Key) -> None:
        """Clear task instances: Airflow's own function, running ones are told to restart."""
        tis = list(session.scalars(sa.select(TI).where(sa.or_(*map(is_key, keys)))))
        clear_task_instances(tis, session, dag_run_state="running")  # type: ignore[arg-type]

    def delete_ti(self, session: Session, key: Key) -> None:
        """A task that a new DAG version no longer has, cleaned away."""
        session.execute(sa.delete(TI.__table__).where(is_key(key)))

    def delete_run(self, session: Session, dag_id: str, run_id: str) -> None:
        """Delete a run; its task instances go with it."""
        session.execute(sa.delete(DagRun.__table__).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))

    def set_run(self, session: Session, dag_id: str, run_id: str, state: str) -> None:
        """A run's state alone, as queueing it again does."""
        where = sa.and_(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
        session.execute(sa.update(DagRun.__table__).where(where).values(state=state))

    def fail_run(self, session: Session, dag_id: str, run_id: str) -> None:
        """Mark a run failed: what runs fails, what has not begun is skipped."""
        begun = TI.state.in_(("running", "deferred", "up_for_reschedule", "awaiting_input"))
        open_ = sa.or_(TI.state.is_(None), TI.state.not_in(FINISHED))
        session.execute(
            sa.update(TI.__table__)
            .where(TI.dag_id == dag_id, TI.run_id == run_id, open_)
            .values(state=sa.case((begun, "failed"), else_="skipped"), end_date=self.clock.now)
        )
        self.set_run(session, dag_id, run_id, "failed")

    def pause(self, session: Session, dag_id: str, paused: bool) -> None:
        """Pause or unpause a DAG."""
        session.execute(
            sa.update(DagModel.__table__).where(DagModel.dag_id == dag_id).values(is_paused=paused)
        )

    def find_file(self, session: Session, dag_id: str, known: bool) -> None:
        """Airflow knows the file of a DAG, or not: then it can end none of its tasks by an event."""
        file = f"{dag_id}.py" if known else None
        session.execute(
            sa.update(DagModel.__table__).where(DagModel.dag_id == dag_id).values(relative_fileloc=file)
        )

    def move(self, session: Session, key: Key, states: tuple[str, ...], **values: Any) -> None:
        """Write a task instance if it is in one of those states."""
        session.execute(sa.update(TI.__table__).where(is_key(key), TI.state.in_(states)).values(**values))

    # --- In short, one transaction each.

    def do(self, move: str, *arguments: Any) -> None:
        """Make one of the moves above in a transaction of its own."""
        with self.database.session() as session:
            getattr(self, move)(session, *arguments)

    def run_to(self, key: Key, state: str | None = None) -> None:
        """Queue what may start, begin this one, and end it if a state is given."""
        self.critical_section()
        self.do("start", key)
        if state is not None:
            self.do("end", key, state)

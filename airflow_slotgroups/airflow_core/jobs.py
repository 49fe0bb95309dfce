"""Airflow's schedulers, and how much they may run at once."""

from __future__ import annotations

from airflow.configuration import conf
from airflow.jobs.job import Job, JobState
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.tables import COUNTED_FOR_RUN, TI

SCHEDULER = "SchedulerJob"


def executors_have_room(session: Session) -> bool:
    """Tell whether the schedulers could start one more task, as far as `[core] parallelism` goes.

    What a remote executor's workers can take is not to be seen from the database.
    """
    schedulers = session.scalar(
        select(func.count()).where(Job.job_type == SCHEDULER, Job.state == JobState.RUNNING)
    )
    active = session.scalar(select(func.count()).where(TI.state.in_(COUNTED_FOR_RUN)))
    parallelism = conf.getint("core", "parallelism")
    return bool(schedulers) and (parallelism <= 0 or (active or 0) < parallelism * (schedulers or 0))

"""Airflow's tables that we read, and the task instance states that mean something to a slot.

Names and meanings as in Airflow 3.3; tests/unit/test_airflow_core.py compares them with the Airflow at hand.
"""

from __future__ import annotations

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.models.team import dag_bundle_team_association_table as bundle_team
from airflow.models.trigger import Trigger
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import ColumnElement, and_, exists, or_

from airflow_slotgroups.domain.names import SLOT_TRIGGER_PATH

TI = TaskInstance

SCHEDULED = TaskInstanceState.SCHEDULED.value
DEFERRED = TaskInstanceState.DEFERRED.value
RUNNING_RUN = DagRunState.RUNNING.value

EXECUTING = (
    TaskInstanceState.QUEUED.value,
    TaskInstanceState.RUNNING.value,
    TaskInstanceState.RESTARTING.value,
)
"""States of a try that an executor or a worker has in hand."""

PARKED = (DEFERRED, TaskInstanceState.AWAITING_INPUT.value)
"""States of a try that has begun and waits for something of its own."""

HELD = (SCHEDULED, *EXECUTING, *PARKED)
"""States of a granted try that keeps its slots (DESIGN rule 1)."""

BETWEEN_TRIES = (TaskInstanceState.UP_FOR_RETRY.value, TaskInstanceState.UP_FOR_RESCHEDULE.value)

COUNTED_FOR_RUN = (TaskInstanceState.QUEUED.value, TaskInstanceState.RUNNING.value)
"""States that Airflow counts for max_active_tasks (`EXECUTION_STATES`)."""

COUNTED_FOR_TASK = (*COUNTED_FOR_RUN, *PARKED)
"""States that Airflow counts for max_active_tis_per_dag and per dagrun (`ACTIVE_STATES`)."""

UNFINISHED = (*HELD, *BETWEEN_TRIES)
"""States, beside none, of a task instance that may still need a pool."""

TEMPORARY_RUN_PREFIX = "__airflow_temporary_run_"


def real_run() -> ColumnElement[bool]:
    """Leave out the runs of `dag.test()` and of `airflow tasks test`, which no scheduler serves."""
    return and_(
        or_(DagRun.triggered_by.is_(None), DagRun.triggered_by != DagRunTriggeredByType.TEST),
        DagRun.run_id.not_like(TEMPORARY_RUN_PREFIX.replace("_", "\\_") + "%", escape="\\"),
    )


def is_acquire() -> ColumnElement[bool]:
    """The task instance waits on our trigger: an acquire, which holds nothing while it waits."""
    return exists().where(Trigger.id == TI.trigger_id, Trigger.classpath == SLOT_TRIGGER_PATH)


__all__ = [
    "BETWEEN_TRIES",
    "COUNTED_FOR_RUN",
    "COUNTED_FOR_TASK",
    "DEFERRED",
    "EXECUTING",
    "HELD",
    "PARKED",
    "RUNNING_RUN",
    "SCHEDULED",
    "TEMPORARY_RUN_PREFIX",
    "TI",
    "UNFINISHED",
    "DagModel",
    "DagRun",
    "Pool",
    "TaskInstance",
    "Trigger",
    "bundle_team",
    "is_acquire",
    "real_run",
]

"""Ending waiting task instances without a worker, as Airflow's own API does for human-in-the-loop tasks."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from airflow.models.trigger import handle_event_submit
from airflow.triggers.base import BaseTaskEndEvent, TaskFailedEvent, TaskSuccessEvent
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import loses_transaction, skip_locked_task_instances
from airflow_slotgroups.airflow_core.tables import TI

log = logging.getLogger(__name__)


@dataclass
class Ended:
    """What became of task instances that were to end.

    :param done: those that ended.
    :param failed: those whose end could not be written, with why; nothing of theirs was changed.
    """

    done: set[UUID] = field(default_factory=set)
    failed: dict[UUID, str] = field(default_factory=dict)


def succeed(session: Session, ids: Collection[UUID], still: ColumnElement[bool]) -> Ended:
    """End task instances as success, their callbacks included.

    :param still: what must hold for those that are ended; locked ones are left for a later cycle.
    """
    return submit(session, ids, still, TaskSuccessEvent())


def fail(session: Session, ids: Collection[UUID], still: ColumnElement[bool]) -> Ended:
    """Fail task instances: retries and callbacks are respected, fail_fast is not (DESIGN section 3).

    :param still: what must hold for those that are failed; locked ones are left for a later cycle.
    """
    return submit(session, ids, still, TaskFailedEvent())


def submit(
    session: Session, ids: Collection[UUID], still: ColumnElement[bool], event: BaseTaskEndEvent
) -> Ended:
    """Fire the event for each in a savepoint of its own: one that can not end must not keep the others."""
    result = Ended()
    if not ids:
        return result
    query = skip_locked_task_instances(select(TI).where(TI.id.in_(ids), still), session)
    for task_instance in session.scalars(query.execution_options(populate_existing=True)).unique().all():
        submit_one(session, task_instance, event, result)
    return result


def submit_one(session: Session, task_instance: TI, event: BaseTaskEndEvent, result: Ended) -> None:
    """Fire one event; Airflow raises, for one, where the DAG's file is not known."""
    ti_id = task_instance.id
    try:
        with session.begin_nested():
            handle_event_submit(event, task_instance=task_instance, session=session)
    except Exception as error:
        if loses_transaction(error):
            raise
        log.exception("Task instance %s could not be ended", ti_id)
        result.failed[ti_id] = f"{type(error).__name__}: {error}"
    else:
        result.done.add(ti_id)

"""The fast path of release, inside somebody else's transaction: never waits, never commits (scenario S64)."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import briefly, has_row_locks
from airflow_slotgroups.domain.states import EndReason
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.history import Hold, holds_of
from airflow_slotgroups.store.keys import GRANTED, SECTION, live
from airflow_slotgroups.store.requests import end_requests


def can_release_at_once(session: Session) -> bool:
    """Tell whether a row can be left out when it is locked: not on MariaDB, where we would wait for it.

    Nor on SQLite: a savepoint opens a transaction that has read and not written. As soon as somebody else
    writes, every statement of that connection fails as "locked" at once, the scheduler's own too, which ends it.
    """
    return has_row_locks(session)


def end_try(
    session: Session, task: tuple[str, str, str, int], try_number: int, reason: EndReason, now: datetime
) -> list[Hold]:
    """End the live request of one try of a task instance; a late word of an old try ends nothing (S31).

    :param task: dag_id, run_id, task_id, map_index.
    :return: how long the slots were held that are free now.
    """
    dag_id, run_id, task_id, map_index = task
    which = and_(
        R.dag_id == dag_id,
        R.run_id == run_id,
        R.task_id == task_id,
        R.map_index == map_index,
        R.try_number == try_number,
        R.kind != SECTION,
    )
    return end_those(session, which, reason, now)


def end_holds_of_run(session: Session, dag_id: str, run_id: str, now: datetime) -> list[Hold]:
    """End the holds of a run that has ended; its tasks that still execute keep their slots until they end."""
    which = and_(R.dag_id == dag_id, R.run_id == run_id, R.state == GRANTED, R.kind == SECTION)
    return end_those(session, which, EndReason.ENDED, now)


def end_those(session: Session, which: ColumnElement[bool], reason: EndReason, now: datetime) -> list[Hold]:
    """End live requests in a savepoint of the connection.

    Not of the session: that would flush what the caller has not finished, and the scheduler, which forbids
    commits while it holds its locks, takes a session's savepoint for one.
    """
    with session.connection().begin_nested(), briefly(session):
        ids = session.scalars(select(R.id).where(which, live())).all()
        if not ids:
            return []
        return holds_of(session, end_requests(session, dict.fromkeys(ids, reason), now))

"""What has been: ended requests and changes of groups, read for people and purged when they are old."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select
from sqlalchemy.orm import Session, aliased

from airflow_slotgroups.airflow_core.locks import skip_locked
from airflow_slotgroups.airflow_core.typing import AnySelect
from airflow_slotgroups.domain.history import Past, SizeChange
from airflow_slotgroups.domain.states import Mode, RequestState
from airflow_slotgroups.models import SlotGroupChange as C
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import GRANTED, WAITING

BATCH = 1000
"""Rows deleted in one transaction."""
CHUNK = 500


def last_event(session: Session, pool: str) -> datetime | None:
    """Return when the group last let somebody in or got a slot back."""
    granted = session.scalar(select(func.max(R.granted_at)).where(R.state == GRANTED, R.pool == pool))
    ended = session.scalar(select(func.max(R.ended_at)).where(R.pool == pool))
    return max((moment for moment in (granted, ended) if moment is not None), default=None)


# Reading.


def read_past(session: Session, pool: str, start: datetime, end: datetime) -> list[Past]:
    """Read the requests of a group that waited or held slots at some moment between the two."""
    columns = (R.slots, R.admission, R.arrived_at, R.granted_at, R.ended_at)
    of_group = select(*columns).where(R.pool == pool, R.arrived_at < end)
    ended: AnySelect = of_group.where(R.ended_at >= start)
    live: AnySelect = of_group.where(R.state.in_((WAITING, GRANTED)))
    return [Past(*row) for query in (ended, live) for row in session.execute(query)]


def read_changes(session: Session, pool: str, start: datetime, end: datetime) -> list[SizeChange]:
    """Read the changes of a group between the two, and the last one before."""
    last_before = (
        select(func.max(C.changed_at)).where(C.pool == pool, C.changed_at <= start).scalar_subquery()
    )
    query: AnySelect = (
        select(C.changed_at, C.slots, C.mode)
        .where(C.pool == pool, C.changed_at >= func.coalesce(last_before, start), C.changed_at < end)
        .order_by(C.changed_at, C.id)
    )
    return [SizeChange(*row) for row in session.execute(query)]


class Ended(NamedTuple):
    """Which ended requests of a group are asked for.

    :param dags: tasks of these DAGs alone; None for all.
    """

    pool: str
    start: datetime
    task_id: str | None = None
    run_id: str | None = None
    state: str | None = None
    dags: Collection[str] | None = None

    def where(self) -> list[ColumnElement[bool]]:
        """Translate; by the index (pool, ended_at)."""
        found = [R.pool == self.pool, R.ended_at >= self.start]
        for column, value in ((R.task_id, self.task_id), (R.run_id, self.run_id), (R.state, self.state)):
            if value is not None:
                found.append(column == value)
        return found if self.dags is None else [*found, R.dag_id.in_(self.dags)]


def ended_requests(session: Session, asked: Ended, limit: int, offset: int = 0) -> list[R]:
    """Read ended requests, the last one first."""
    query = select(R).where(*asked.where()).order_by(R.ended_at.desc(), R.id.desc())
    return list(session.scalars(query.limit(limit).offset(offset)))


def count_ended(session: Session, asked: Ended) -> int:
    """Count them."""
    return session.scalar(select(func.count()).select_from(R).where(*asked.where())) or 0


def dags_of_ended(session: Session, asked: Ended) -> set[str]:
    """Name their DAGs."""
    return set(session.scalars(select(R.dag_id).where(*asked.where()).distinct()))


class Hold(NamedTuple):
    """How long slots of a group were held."""

    pool: str
    held: timedelta


def holds_of(session: Session, ids: Collection[int]) -> list[Hold]:
    """Tell how long requests held their slots, those of them that have been released."""
    numbers, found = list(ids), []
    for start in range(0, len(numbers), CHUNK):
        query: AnySelect = select(R.pool, R.granted_at, R.ended_at).where(
            R.id.in_(numbers[start : start + CHUNK]), R.state == RequestState.RELEASED.value
        )
        found += [Hold(pool, ended - granted) for pool, granted, ended in session.execute(query)]
    return found


# Purging.


def purge_requests(session: Session, before: datetime, limit: int = BATCH) -> int:
    """Delete requests that ended before a moment, the oldest first; returns how many."""
    query = select(R.id).where(R.ended_at < before).order_by(R.ended_at).limit(limit)
    ids = session.scalars(skip_locked(query, session)).all()
    if ids:
        session.execute(delete(R).where(R.id.in_(ids)).execution_options(synchronize_session=False))
    return len(ids)


def purge_changes(session: Session, before: datetime, limit: int = BATCH) -> int:
    """Delete changes that are older than a moment and no longer tell what a group was then.

    The last change before it stays: it says which size the group had when the history that is kept begins.
    """
    query = select(C.id).where(C.changed_at < before, is_of_no_use(before)).order_by(C.id).limit(limit)
    ids: Sequence[int] = session.scalars(skip_locked(query, session)).all()
    if ids:
        session.execute(delete(C).where(C.id.in_(ids)).execution_options(synchronize_session=False))
    return len(ids)


def is_of_no_use(before: datetime) -> ColumnElement[bool]:
    """A later change, old as well, has replaced it; or it is the end of a group."""
    later = aliased(C)
    is_later = or_(later.changed_at > C.changed_at, and_(later.changed_at == C.changed_at, later.id > C.id))
    replaced = exists().where(later.pool == C.pool, later.changed_at < before, is_later)
    return or_(C.mode == Mode.DISSOLVING.value, replaced)

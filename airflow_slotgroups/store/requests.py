"""Transitions of requests; each is conditional on the state that it leads out of (DESIGN rule 11)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import case, null, select, update
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import skip_locked
from airflow_slotgroups.domain.states import EndReason, RequestState
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import GRANTED, WAITING, live

CHUNK = 500

AFTER_FAILURE = timedelta(seconds=30)
"""Pause before an acquire that could not be ended is tried again."""


def lock_requests(session: Session, ids: Sequence[int]) -> list[int]:
    """Lock live requests by id, leaving out those that a listener has locked in somebody's transaction.

    A cycle that waited for one, with task instances locked, could make the scheduler the victim of a deadlock.
    """
    locked: list[int] = []
    for part in parts(ids):
        query = select(R.id).where(R.id.in_(part), live())
        locked += session.scalars(skip_locked(query, session))
    return locked


def end_requests(session: Session, reasons: Mapping[int, EndReason], now: datetime) -> set[int]:
    """End live requests: a granted one is released, a waiting one cancelled; ended ones are left alone.

    :return: those that were ended; the others are locked by a listener, or had ended before.
    """
    locked = lock_requests(session, list(reasons))
    for reason in EndReason:
        ids = [request_id for request_id in locked if reasons[request_id] is reason]
        for part in parts(ids):
            end_part(session, part, reason, now)
    return set(locked)


def end_part(session: Session, ids: Sequence[int], reason: EndReason, now: datetime) -> None:
    """End requests for one reason."""
    session.execute(
        update(R)
        .where(R.id.in_(ids), live())
        .values(
            live=null(),
            ended_at=now,
            end_reason=reason.value,
            state=case((R.state == GRANTED, RequestState.RELEASED.value), else_=RequestState.CANCELLED.value),
        )
        .execution_options(synchronize_session=False)
    )


def mark_started(session: Session, ids: Sequence[int]) -> None:
    """Remember that grants have come to something."""
    for part in parts(lock_requests(session, ids)):
        session.execute(
            update(R)
            .where(R.id.in_(part))
            .values(was_queued=True)
            .execution_options(synchronize_session=False)
        )


def put_off(session: Session, request_id: int, why: str, now: datetime) -> None:
    """Pass over an acquire that could not be ended for a while, and say why."""
    session.execute(
        update(R)
        .where(R.id == request_id, live())
        .values(not_before=now + AFTER_FAILURE, notice=why)
        .execution_options(synchronize_session=False)
    )


def put_back(
    session: Session, ids: Collection[int], not_before: datetime | None, notice: str | None = None
) -> None:
    """Turn grants that came to nothing into waiting requests with their old place in the queue."""
    for part in parts(list(ids)):
        session.execute(
            update(R)
            .where(R.id.in_(part), R.state == GRANTED)
            .values(
                state=WAITING,
                admission=null(),
                granted_at=null(),
                not_before=not_before,
                notice=notice,
                ti_scheduled_at=null(),
                ti_queued_at=null(),
            )
            .execution_options(synchronize_session=False)
        )


def parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Cut a list of ids into parts that fit into one statement."""
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]

"""Transitions of requests; each is conditional on the state that it leads out of (DESIGN rule 11)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from sqlalchemy import case, null, update
from sqlalchemy.orm import Session

from airflow_slotgroups.domain.states import EndReason, RequestState
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import GRANTED, WAITING, live

CHUNK = 500


def end_requests(session: Session, reasons: Mapping[int, EndReason], now: datetime) -> None:
    """End live requests: a granted one is released, a waiting one cancelled; ended ones are left alone."""
    for reason in EndReason:
        ids = [request_id for request_id, why in reasons.items() if why is reason]
        for part in parts(ids):
            session.execute(
                update(R)
                .where(R.id.in_(part), live())
                .values(
                    live=null(),
                    ended_at=now,
                    end_reason=reason.value,
                    state=case(
                        (R.state == GRANTED, RequestState.RELEASED.value),
                        else_=RequestState.CANCELLED.value,
                    ),
                )
                .execution_options(synchronize_session=False)
            )


def mark_started(session: Session, ids: Sequence[int]) -> None:
    """Remember that grants have come to something."""
    for part in parts(ids):
        session.execute(
            update(R)
            .where(R.id.in_(part))
            .values(was_queued=True)
            .execution_options(synchronize_session=False)
        )


def put_off(session: Session, request_id: int, why: str, until: datetime) -> None:
    """Let a waiter be passed over for a while, and say why."""
    session.execute(
        update(R)
        .where(R.id == request_id, R.state == WAITING)
        .values(not_before=until, notice=why)
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

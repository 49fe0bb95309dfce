"""Requests that have waited as long as their task allows (max_wait): their task fails (DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import and_, bindparam, or_, select, update
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.audit import MAX_WAIT, write_audit
from airflow_slotgroups.airflow_core.events import fail
from airflow_slotgroups.airflow_core.tables import DEFERRED, SCHEDULED, TI
from airflow_slotgroups.airflow_core.typing import AnySelect
from airflow_slotgroups.domain.states import EndReason
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import WAITING, built_once, same_task_instance
from airflow_slotgroups.store.queue import still_waits
from airflow_slotgroups.store.requests import end_requests, lock_requests

AT_MOST = 100
TRY_AGAIN = timedelta(minutes=1)


class Expired(NamedTuple):
    """A request whose time is up."""

    id: int
    ti_id: UUID
    pool: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    enqueued_at: datetime


def find_expired(session: Session, now: datetime, names: Sequence[str]) -> list[Expired]:
    """Find waiting requests of some groups whose time is up."""
    return [Expired(*row) for row in session.execute(expired_in(tuple(names)), {"now": now})]


@built_once
def expired_in(names: tuple[str, ...]) -> AnySelect:
    """Read waiting requests whose time is up."""
    return (
        select(
            R.id,
            TI.id,
            R.pool,
            R.dag_id,
            R.run_id,
            R.task_id,
            R.map_index,
            R.try_number,
            R.enqueued_at,
        )
        .join(TI, same_task_instance())
        .where(R.state == WAITING, R.expires_at <= bindparam("now"), R.pool.in_(names), still_waits())
        .limit(AT_MOST)
    )


def fail_expired(session: Session, found: Sequence[Expired], now: datetime) -> None:
    """Fail their tasks, without a worker and without a slot, and say why in the audit log."""
    still = or_(TI.state == SCHEDULED, TI.state == DEFERRED)
    ended = fail(session, [request.ti_id for request in found], and_(still))
    for request in found:
        if request.ti_id in ended.done:
            end_requests(session, {request.id: EndReason.EXPIRED}, now)
            log_expiry(session, request, now)
        elif why := ended.failed.get(request.ti_id):
            put_off_expiry(session, request, why, now)


def log_expiry(session: Session, request: Expired, now: datetime) -> None:
    """Write down what happened to the task."""
    waited = round((now - request.enqueued_at).total_seconds(), 1)
    write_audit(
        session,
        MAX_WAIT,
        who="slotgroups",
        task=(request.dag_id, request.run_id, request.task_id, request.map_index, request.try_number),
        group=request.pool,
        reason=f"waited {waited} s for slots of '{request.pool}', which is as long as its max_wait allows",
    )


def put_off_expiry(session: Session, request: Expired, why: str, now: datetime) -> None:
    """Try again later what could not be failed, and show why."""
    if not lock_requests(session, [request.id]):
        return
    session.execute(
        update(R)
        .where(R.id == request.id)
        .values(
            expires_at=now + TRY_AGAIN, notice=f"its max_wait has passed, and it could not be failed: {why}"
        )
        .execution_options(synchronize_session=False)
    )

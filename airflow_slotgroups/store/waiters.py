"""Waiters that wait no longer: cleared, marked by hand, deleted (scenarios S26, S28, S40)."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.tables import DEFERRED, EXECUTING, SCHEDULED, TI
from airflow_slotgroups.domain.states import EndReason
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import SECTION, WAITING, same_task_instance

AT_MOST = 1000


def find_left(session: Session, names: Collection[str], limit: int = AT_MOST) -> dict[int, EndReason]:
    """Find waiting requests whose task instance is gone, another try, or not waiting in that pool.

    One that slipped in, and executes in the closed pool, is left to the cycle, which counts it on sight.
    """
    query = (
        select(R.id, R.try_number, TI.id.label("ti_id"), TI.try_number.label("ti_try_number"))
        .outerjoin(TI, same_task_instance())
        .where(R.state == WAITING, R.pool.in_(names))
        .where(
            or_(
                TI.id.is_(None),
                TI.try_number != R.try_number,
                and_(R.kind == SECTION, TI.state.is_distinct_from(DEFERRED)),
                and_(R.kind != SECTION, or_(TI.state.is_(None), TI.state.not_in((SCHEDULED, *EXECUTING)))),
                TI.pool != R.pool,
            )
        )
        .limit(limit)
    )
    return {
        row.id: reason_of(row.ti_id is not None, row.try_number == row.ti_try_number)
        for row in session.execute(query)
    }


def reason_of(exists: bool, same_try: bool) -> EndReason:
    """Name why a waiter waits no longer."""
    if not exists:
        return EndReason.GONE
    return EndReason.LEFT if same_try else EndReason.CLEARED

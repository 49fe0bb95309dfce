"""Finding tasks that wait in closed pools, and enqueuing them (DESIGN section 2, step 2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import and_, insert, or_, select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.dags import NO_LIMITS, TaskLimitReader
from airflow_slotgroups.airflow_core.tables import SCHEDULED, TI, DagRun, real_run
from airflow_slotgroups.airflow_core.typing import AnySelect
from airflow_slotgroups.domain.order import order_major, order_minor
from airflow_slotgroups.domain.snapshot import RunKey
from airflow_slotgroups.domain.states import EndReason, Kind, RequestState
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.groups import StoredGroup
from airflow_slotgroups.store.keys import live, same_task_instance
from airflow_slotgroups.store.requests import end_requests

AT_MOST = 1000
"""Tasks enqueued by one cycle (DESIGN section 2); the next one goes on."""


class Arrival(NamedTuple):
    """A scheduled task of a closed pool that has no live request.

    `older_id` is the live request of another try of it, which that try left behind.
    """

    pool: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    slots: int
    priority: int | None
    scheduled_at: datetime | None
    older_id: int | None


def find_arrivals(session: Session, names: Collection[str], limit: int = AT_MOST) -> list[Arrival]:
    """Find the tasks to enqueue, first come first.

    Of one moment, those of the older run and the lower map index come first, as in Airflow's own order.
    """
    query: AnySelect = (
        select(
            TI.pool,
            TI.dag_id,
            TI.run_id,
            TI.task_id,
            TI.map_index,
            TI.try_number,
            TI.pool_slots,
            TI.priority_weight,
            TI.scheduled_dttm,
            R.id,
        )
        .join(DagRun, and_(DagRun.dag_id == TI.dag_id, DagRun.run_id == TI.run_id))
        .outerjoin(R, and_(same_task_instance(), live()))
        .where(TI.pool.in_(names), TI.state == SCHEDULED, real_run())
        .where(or_(R.id.is_(None), R.try_number != TI.try_number))
        .order_by(TI.scheduled_dttm, DagRun.logical_date, TI.map_index)
        .limit(limit)
    )
    return [Arrival(*row) for row in session.execute(query)]


def enqueue(
    session: Session,
    groups: Mapping[str, StoredGroup],
    arrivals: Sequence[Arrival],
    limits: TaskLimitReader,
    now: datetime,
) -> None:
    """Give each arrival a waiting request, ending whatever an older try of it left behind."""
    if not arrivals:
        return
    # In this order: at most one live request per task instance (rule 11, a database constraint).
    end_requests(session, {a.older_id: EndReason.CLEARED for a in arrivals if a.older_id is not None}, now)
    by_task = limits.read(session, {(RunKey(a.dag_id, a.run_id), a.task_id) for a in arrivals})
    rows = []
    for arrival in arrivals:
        row = request_row(arrival, groups[arrival.pool].row.ageing_seconds, now)
        run_limits = by_task.get((RunKey(arrival.dag_id, arrival.run_id), arrival.task_id), NO_LIMITS)
        row["max_active_tis_per_dag"], row["max_active_tis_per_dagrun"] = run_limits
        rows.append(row)
    session.execute(insert(R), rows)


def request_row(arrival: Arrival, ageing_seconds: int, now: datetime) -> dict[str, Any]:
    """Make the row of a waiting request."""
    arrived_at = arrival.scheduled_at or now
    priority = arrival.priority or 0
    return {
        "pool": arrival.pool,
        "kind": Kind.TASK.value,
        "dag_id": arrival.dag_id,
        "run_id": arrival.run_id,
        "task_id": arrival.task_id,
        "map_index": arrival.map_index,
        "try_number": arrival.try_number,
        "slots": arrival.slots,
        "priority": priority,
        "order_major": order_major(priority, arrived_at, ageing_seconds),
        "order_minor": order_minor(arrived_at),
        "state": RequestState.WAITING.value,
        "live": True,
        "suspended": False,
        "forced": False,
        "passes": 0,
        "was_queued": False,
        "enqueued_at": now,
        "arrived_at": arrived_at,
    }

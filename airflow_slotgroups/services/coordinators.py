"""Who lets waiters in?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.clock import utcnow
from airflow_slotgroups.models import SlotCoordinator
from airflow_slotgroups.services.transaction import read
from airflow_slotgroups.store.coordinators import is_alive, load_coordinators


@dataclass(frozen=True)
class CoordinatorStatus:
    """A coordinator as it last reported itself.

    :param scheduler_job_id: the scheduler beside it; None when it runs alone.
    :param alive: it was heard of lately.
    :param error: what its last cycle failed with; it may name DAGs and tasks.
    """

    hostname: str
    pid: int
    scheduler_job_id: int | None
    version: str
    started_at: datetime
    heartbeat_at: datetime
    last_cycle_at: datetime | None
    cycle_seconds: float | None
    alive: bool
    error: str | None


def coordinators() -> list[CoordinatorStatus]:
    """Return all that were heard of within the last hour, the last one first."""
    return read(coordinators_in)


def coordinators_in(session: Session) -> list[CoordinatorStatus]:
    """Read them."""
    now = utcnow()
    return [status_of(row, now) for row in load_coordinators(session)]


def status_of(row: SlotCoordinator, now: datetime) -> CoordinatorStatus:
    """Describe one."""
    return CoordinatorStatus(
        hostname=row.hostname,
        pid=row.pid,
        scheduler_job_id=row.scheduler_job_id,
        version=row.version,
        started_at=row.started_at,
        heartbeat_at=row.heartbeat_at,
        last_cycle_at=row.last_cycle_at,
        cycle_seconds=row.cycle_seconds,
        alive=is_alive(row, now),
        error=row.error,
    )

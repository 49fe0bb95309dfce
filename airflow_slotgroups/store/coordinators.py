"""Coordinators report that they live, and what ails them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from airflow_slotgroups.models import SlotCoordinator

HEARTBEAT = timedelta(seconds=2)
DEAD_AFTER = timedelta(seconds=15)
"""A coordinator that has been silent for so long counts as dead."""
FORGOTTEN_AFTER = timedelta(hours=1)


@dataclass(frozen=True)
class Identity:
    """Who reports."""

    id: str
    hostname: str
    pid: int
    version: str
    started_at: datetime
    scheduler_job_id: int | None = None


def report(
    session: Session,
    who: Identity,
    now: datetime,
    *,
    last_cycle_at: datetime | None,
    cycle_seconds: float | None,
    error: str | None,
) -> None:
    """Write a heartbeat, and forget those that died long ago."""
    session.merge(
        SlotCoordinator(
            id=who.id,
            hostname=who.hostname,
            pid=who.pid,
            scheduler_job_id=who.scheduler_job_id,
            version=who.version,
            started_at=who.started_at,
            heartbeat_at=now,
            last_cycle_at=last_cycle_at,
            cycle_seconds=cycle_seconds,
            error=error,
        )
    )
    session.execute(delete(SlotCoordinator).where(SlotCoordinator.heartbeat_at < now - FORGOTTEN_AFTER))


def sign_off(session: Session, who: Identity) -> None:
    """A coordinator that ends in order leaves no row behind."""
    session.execute(delete(SlotCoordinator).where(SlotCoordinator.id == who.id))


def load_coordinators(session: Session) -> list[SlotCoordinator]:
    """Read all coordinators, the latest heartbeat first."""
    return list(session.scalars(select(SlotCoordinator).order_by(SlotCoordinator.heartbeat_at.desc())))


def is_alive(coordinator: SlotCoordinator, now: datetime) -> bool:
    """Tell whether it was heard of lately."""
    return coordinator.heartbeat_at > now - DEAD_AFTER

"""What has been."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import GRANTED


def last_event(session: Session, pool: str) -> datetime | None:
    """Return when the group last let somebody in or got a slot back."""
    granted = session.scalar(select(func.max(R.granted_at)).where(R.state == GRANTED, R.pool == pool))
    ended = session.scalar(select(func.max(R.ended_at)).where(R.pool == pool))
    return max((moment for moment in (granted, ended) if moment is not None), default=None)

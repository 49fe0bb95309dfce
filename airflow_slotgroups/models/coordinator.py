"""Coordinators, as they report themselves."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Float, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from airflow_slotgroups.models.base import Base, UtcDateTime


class SlotCoordinator(Base):
    """One row a coordinator process; rows of the dead are deleted by the living after a while."""

    __tablename__ = "slot_coordinator"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    hostname: Mapped[str] = mapped_column(String(255), nullable=False)
    pid: Mapped[int] = mapped_column(Integer, nullable=False)
    scheduler_job_id: Mapped[int | None] = mapped_column(Integer, nullable=True)
    """The scheduler it was started by; none when it runs alone."""
    version: Mapped[str] = mapped_column(String(50), nullable=False)
    started_at: Mapped[datetime] = mapped_column(UtcDateTime, nullable=False)
    heartbeat_at: Mapped[datetime] = mapped_column(UtcDateTime, nullable=False)
    last_cycle_at: Mapped[datetime | None] = mapped_column(UtcDateTime, nullable=True)
    """When a cycle last ended well."""
    cycle_seconds: Mapped[float | None] = mapped_column(Float, nullable=True)
    error: Mapped[str | None] = mapped_column(Text, nullable=True)
    """What the last cycle failed with; none when it ended well."""

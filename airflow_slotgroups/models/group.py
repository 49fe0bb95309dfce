"""Slot groups and the history of their size."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Boolean, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from airflow_slotgroups.models.base import POOL_LENGTH, Base, BigId, UtcDateTime


class SlotGroup(Base):
    """A pool whose door we keep."""

    __tablename__ = "slot_group"

    pool: Mapped[str] = mapped_column(String(POOL_LENGTH), primary_key=True)
    slots: Mapped[int] = mapped_column(Integer, nullable=False)
    """The size; -1 for no limit."""
    mode: Mapped[str] = mapped_column(String(20), nullable=False)
    strategy: Mapped[str] = mapped_column(String(20), nullable=False)
    max_passes: Mapped[int] = mapped_column(Integer, nullable=False)
    ageing_seconds: Mapped[int] = mapped_column(Integer, nullable=False)
    """Seconds of waiting that are worth one point of priority; 0 for no ageing."""
    description: Mapped[str | None] = mapped_column(Text, nullable=True)
    pool_include_deferred: Mapped[bool] = mapped_column(Boolean, nullable=False)
    """Whether the pool counted deferred tasks before it was adopted; given back when dissolving."""
    running_slots: Mapped[int | None] = mapped_column(Integer, nullable=True)
    """Slots that we last wrote to the running pool: another value there is somebody's edit."""
    admits_from: Mapped[datetime | None] = mapped_column(UtcDateTime, nullable=True)
    """Nobody is let in before: right after adopting on a database without row locks."""
    stalled_since: Mapped[datetime | None] = mapped_column(UtcDateTime, nullable=True)
    """Since when a decision to let somebody in could not be carried out; none when all is well."""
    notice: Mapped[str | None] = mapped_column(Text, nullable=True)
    """What was last amended by itself, as edits of the running pool (DESIGN section 2), for people to see."""
    comment: Mapped[str | None] = mapped_column(Text, nullable=True)
    """What a person wrote at the last manual action."""
    lock_count: Mapped[int] = mapped_column(Integer, nullable=False, default=0)
    """Written in order to lock the row on databases without row locks; the value means nothing."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, nullable=False)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime, nullable=False)


class SlotGroupChange(Base):
    """One change of a group's size or mode, so that use over time can be told later."""

    __tablename__ = "slot_group_change"

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    pool: Mapped[str] = mapped_column(String(POOL_LENGTH), nullable=False)
    changed_at: Mapped[datetime] = mapped_column(UtcDateTime, nullable=False)
    slots: Mapped[int] = mapped_column(Integer, nullable=False)
    mode: Mapped[str] = mapped_column(String(20), nullable=False)
    cause: Mapped[str] = mapped_column(String(50), nullable=False)
    """What changed it: set, adopt, dissolve, pool edited."""
    comment: Mapped[str | None] = mapped_column(Text, nullable=True)

    __table_args__ = (Index(None, "pool", "changed_at"),)

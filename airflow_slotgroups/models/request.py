"""Requests for slots: one row for each coming of a try, live or ended."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, Index, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from airflow_slotgroups.models.base import POOL_LENGTH, Base, BigId, StringID, UtcDateTime


class SlotRequest(Base):
    """A task instance (or section) that waits for slots, holds them, or held them.

    Its task instance is named by (dag_id, run_id, task_id, map_index, try_number), never by the task
    instance's id, which changes on retry, on clear and on orphan reset (DESIGN section 3).
    """

    __tablename__ = "slot_request"

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    pool: Mapped[str] = mapped_column(String(POOL_LENGTH), nullable=False)
    kind: Mapped[str] = mapped_column(String(20), nullable=False)
    dag_id: Mapped[str] = mapped_column(StringID(), nullable=False)
    run_id: Mapped[str] = mapped_column(StringID(), nullable=False)
    task_id: Mapped[str] = mapped_column(StringID(), nullable=False)
    map_index: Mapped[int] = mapped_column(Integer, nullable=False)
    try_number: Mapped[int] = mapped_column(Integer, nullable=False)

    slots: Mapped[int] = mapped_column(Integer, nullable=False)
    priority: Mapped[int] = mapped_column(Integer, nullable=False)
    order_major: Mapped[int] = mapped_column(BigInteger, nullable=False)
    order_minor: Mapped[int] = mapped_column(BigInteger, nullable=False)
    """The place in the queue, see `domain.order`."""

    state: Mapped[str] = mapped_column(String(20), nullable=False)
    live: Mapped[bool | None] = mapped_column(Boolean, nullable=True)
    """True while waiting or granted, else null: makes the unique constraint speak of live rows alone."""
    admission: Mapped[str | None] = mapped_column(String(20), nullable=True)
    suspended: Mapped[bool] = mapped_column(Boolean, nullable=False, default=False)
    forced: Mapped[bool] = mapped_column(Boolean, nullable=False, default=False)
    passes: Mapped[int] = mapped_column(Integer, nullable=False, default=0)
    """How often smaller requests passed it while it was the head (`backfill`)."""

    max_active_tis_per_dag: Mapped[int | None] = mapped_column(Integer, nullable=True)
    max_active_tis_per_dagrun: Mapped[int | None] = mapped_column(Integer, nullable=True)
    """The task's own limits, read from its serialized DAG, and again when that is edited while it waits."""
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime, nullable=True)
    """When its task asked to be failed if it still waits (max_wait)."""
    release_task_id: Mapped[str | None] = mapped_column(StringID(), nullable=True)
    """The task that ends a section's hold; none: the end of the run does."""

    enqueued_at: Mapped[datetime] = mapped_column(UtcDateTime, nullable=False)
    """When the coordinator first saw it."""
    arrived_at: Mapped[datetime] = mapped_column(UtcDateTime, nullable=False)
    """When its task instance became scheduled: what the queue's order goes by."""
    not_before: Mapped[datetime | None] = mapped_column(UtcDateTime, nullable=True)
    granted_at: Mapped[datetime | None] = mapped_column(UtcDateTime, nullable=True)
    """One value for all grants of one cycle."""
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime, nullable=True)
    end_reason: Mapped[str | None] = mapped_column(String(20), nullable=True)

    ti_scheduled_at: Mapped[datetime | None] = mapped_column(UtcDateTime, nullable=True)
    """scheduled_dttm of the task instance at the grant: another value means another coming of the same try."""
    ti_queued_at: Mapped[datetime | None] = mapped_column(UtcDateTime, nullable=True)
    """queued_dttm at the grant: another value means that the grant came to something."""
    was_queued: Mapped[bool] = mapped_column(Boolean, nullable=False, default=False)
    """Whether it was ever seen queued, running or deferred since the grant."""
    notice: Mapped[str | None] = mapped_column(Text, nullable=True)
    """What people should know of it: a bad slot_priority, why letting it in failed."""
    comment: Mapped[str | None] = mapped_column(Text, nullable=True)

    __table_args__ = (
        UniqueConstraint("dag_id", "run_id", "task_id", "map_index", "live", name="uq_slot_request_live"),
        Index("ix_slot_request_queue", "state", "pool", "order_major", "order_minor", "id"),
        Index("ix_slot_request_expiry", "state", "expires_at"),
        Index("ix_slot_request_history", "pool", "ended_at"),
        Index("ix_slot_request_ended", "ended_at"),
    )

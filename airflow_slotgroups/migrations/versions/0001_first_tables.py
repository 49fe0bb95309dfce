"""The first tables.

Revision: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from airflow.models.base import StringID
from airflow.utils.sqlalchemy import UtcDateTime
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the four tables."""
    make_group()
    make_group_change()
    make_request()
    make_coordinator()


def make_group() -> None:
    """Slot groups."""
    op.create_table(
        "slot_group",
        sa.Column("pool", sa.String(248), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("mode", sa.String(20), nullable=False),
        sa.Column("strategy", sa.String(20), nullable=False),
        sa.Column("max_passes", sa.Integer(), nullable=False),
        sa.Column("ageing_seconds", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("pool_include_deferred", sa.Boolean(), nullable=False),
        sa.Column("running_slots", sa.Integer(), nullable=True),
        sa.Column("admits_from", UtcDateTime(), nullable=True),
        sa.Column("stalled_since", UtcDateTime(), nullable=True),
        sa.Column("notice", sa.Text(), nullable=True),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("lock_count", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("pool", name="pk_slot_group"),
    )


def make_group_change() -> None:
    """Changes of size and mode over time."""
    op.create_table(
        "slot_group_change",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("pool", sa.String(248), nullable=False),
        sa.Column("changed_at", UtcDateTime(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("mode", sa.String(20), nullable=False),
        sa.Column("cause", sa.String(50), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_slot_group_change"),
    )
    op.create_index("ix_slot_group_change_pool_changed_at", "slot_group_change", ["pool", "changed_at"])


def make_request() -> None:
    """Requests, live and ended."""
    op.create_table(
        "slot_request",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("pool", sa.String(248), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("dag_id", StringID(), nullable=False),
        sa.Column("run_id", StringID(), nullable=False),
        sa.Column("task_id", StringID(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.Integer(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("order_major", sa.BigInteger(), nullable=False),
        sa.Column("order_minor", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=True),
        sa.Column("admission", sa.String(20), nullable=True),
        sa.Column("suspended", sa.Boolean(), nullable=False),
        sa.Column("forced", sa.Boolean(), nullable=False),
        sa.Column("passes", sa.Integer(), nullable=False),
        sa.Column("max_active_tis_per_dag", sa.Integer(), nullable=True),
        sa.Column("max_active_tis_per_dagrun", sa.Integer(), nullable=True),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("release_task_id", StringID(), nullable=True),
        sa.Column("enqueued_at", UtcDateTime(), nullable=False),
        sa.Column("arrived_at", UtcDateTime(), nullable=False),
        sa.Column("not_before", UtcDateTime(), nullable=True),
        sa.Column("granted_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("end_reason", sa.String(20), nullable=True),
        sa.Column("ti_scheduled_at", UtcDateTime(), nullable=True),
        sa.Column("ti_queued_at", UtcDateTime(), nullable=True),
        sa.Column("was_queued", sa.Boolean(), nullable=False),
        sa.Column("notice", sa.Text(), nullable=True),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_slot_request"),
        sa.UniqueConstraint("dag_id", "run_id", "task_id", "map_index", "live", name="uq_slot_request_live"),
    )
    queue = ["state", "pool", "order_major", "order_minor", "id"]
    op.create_index("ix_slot_request_queue", "slot_request", queue)
    op.create_index("ix_slot_request_expiry", "slot_request", ["state", "expires_at"])
    op.create_index("ix_slot_request_history", "slot_request", ["pool", "ended_at"])
    op.create_index("ix_slot_request_ended", "slot_request", ["ended_at"])


def make_coordinator() -> None:
    """Coordinators that report themselves."""
    op.create_table(
        "slot_coordinator",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("hostname", sa.String(255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("scheduler_job_id", sa.Integer(), nullable=True),
        sa.Column("version", sa.String(50), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.Column("last_cycle_at", UtcDateTime(), nullable=True),
        sa.Column("cycle_seconds", sa.Float(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_slot_coordinator"),
    )


def downgrade() -> None:
    """Drop them; the pools themselves stay as they are (dissolve the groups first)."""
    for table in ("slot_coordinator", "slot_request", "slot_group_change", "slot_group"):
        op.drop_table(table)

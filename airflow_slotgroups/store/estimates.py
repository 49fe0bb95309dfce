"""What an estimate of the start goes by: who holds now, and how long recent requests held."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.typing import AnySelect
from airflow_slotgroups.domain.estimate import Samples, Standing
from airflow_slotgroups.domain.snapshot import TaskKey
from airflow_slotgroups.domain.states import RequestState
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import GRANTED

MOST_SAMPLES = 1000
"""Requests looked at, the last ones first."""


def read_samples(session: Session, pool: str) -> Samples:
    """Read how long the requests that ended last have held their slots."""
    query: AnySelect = (
        select(R.dag_id, R.task_id, R.granted_at, R.ended_at)
        .where(R.pool == pool, R.ended_at.is_not(None), R.state == RequestState.RELEASED.value)
        .order_by(R.ended_at.desc())
        .limit(MOST_SAMPLES)
    )
    return Samples.of(
        (TaskKey(dag_id, task_id), max(0.0, (ended - granted).total_seconds()))
        for dag_id, task_id, granted, ended in session.execute(query)
    )


def read_holders(session: Session, pool: str, now: datetime) -> list[Standing]:
    """Read who holds slots, and for how long already; their number is bounded by the size."""
    query: AnySelect = select(R.id, R.dag_id, R.task_id, R.slots, R.granted_at).where(
        R.state == GRANTED, R.pool == pool
    )
    return [
        Standing(number, TaskKey(dag_id, task_id), slots, (now - granted).total_seconds())
        for number, dag_id, task_id, slots, granted in session.execute(query)
    ]

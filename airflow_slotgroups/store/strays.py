"""Sending task instances home: back to the pool that their DAG names (DESIGN rule 10)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.tables import BETWEEN_TRIES, SCHEDULED, TI, UNFINISHED
from airflow_slotgroups.airflow_core.task_instances import move_to_pool
from airflow_slotgroups.domain.names import running_pool
from airflow_slotgroups.store.keys import is_granted

AT_MOST = 1000


class Stray(NamedTuple):
    """A task instance in a running pool that has no business there."""

    id: UUID
    home: str


def find_strays(session: Session, names: Collection[str], limit: int = AT_MOST) -> list[Stray]:
    """Find task instances in running pools that wait, or are between tries, without a granted request."""
    home = {running_pool(name): name for name in names}
    query = select(TI.id, TI.pool).where(TI.pool.in_(home), waits(), ~granted_and_scheduled()).limit(limit)
    return [Stray(ti_id, home[pool]) for ti_id, pool in session.execute(query)]


def waits() -> ColumnElement[bool]:
    """States in which nothing executes and nothing is parked."""
    return or_(TI.state.is_(None), TI.state.in_((SCHEDULED, *BETWEEN_TRIES)))


def granted_and_scheduled() -> ColumnElement[bool]:
    """Let in, and about to be started by the scheduler."""
    return and_(TI.state == SCHEDULED, is_granted())


def find_leftovers(session: Session, names: Collection[str], limit: int = AT_MOST) -> list[Stray]:
    """Find whatever is unfinished in the running pools of groups that are being dissolved."""
    home = {running_pool(name): name for name in names}
    query = select(TI.id, TI.pool).where(TI.pool.in_(home), unfinished()).limit(limit)
    return [Stray(ti_id, home[pool]) for ti_id, pool in session.execute(query)]


def unfinished() -> ColumnElement[bool]:
    """Task instances that may still need a pool."""
    return or_(TI.state.is_(None), TI.state.in_(UNFINISHED))


def send_home(session: Session, strays: Collection[Stray], still: Any) -> set[UUID]:
    """Set their pool back; those that somebody has locked go in a later cycle.

    :param still: what must still hold for a stray when it is moved.
    """
    moved: set[UUID] = set()
    for home in sorted({stray.home for stray in strays}):
        ids = [stray.id for stray in strays if stray.home == home]
        moved |= move_to_pool(session, ids, home, and_(TI.pool == running_pool(home), still))
    return moved

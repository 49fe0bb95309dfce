"""Writes to Airflow's `task_instance`: nothing but the pool, and never a row that others have locked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import has_row_locks, skip_locked
from airflow_slotgroups.airflow_core.tables import TI

CHUNK = 500
"""Ids in one statement, well below every database's limit of parameters."""


def move_to_pool(
    session: Session, ids: Collection[UUID], to_pool: str, still: ColumnElement[bool]
) -> set[UUID]:
    """Set the pool of task instances that `still` holds for, skipping rows that others have locked.

    Waiting for such rows made the scheduler the victim of a deadlock (DESIGN section 3).

    :param still: the condition under which they may be moved; checked again by the update itself.
    :return: the ids that were moved.
    """
    moved: set[UUID] = set()
    for chunk in chunks(list(ids)):
        moved |= move_chunk(session, chunk, to_pool, still)
    return moved


def move_chunk(session: Session, ids: Sequence[UUID], to_pool: str, still: ColumnElement[bool]) -> set[UUID]:
    """Lock by id, then update by id."""
    free = set(session.scalars(skip_locked(select(TI.id).where(TI.id.in_(ids), still), session)))
    if not free:
        return free
    session.execute(
        update(TI)
        .where(TI.id.in_(free), still)
        .values(pool=to_pool)
        .execution_options(synchronize_session=False)
    )
    if has_row_locks(session):
        return free
    # Without row locks another writer may have come between the two statements (MariaDB).
    return set(session.scalars(select(TI.id).where(TI.id.in_(free), TI.pool == to_pool)))


def chunks(ids: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    """Cut a list into parts of at most `CHUNK`."""
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]

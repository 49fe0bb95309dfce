"""Rows of Airflow's `slot_pool`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import is_locked, no_wait, wait_for_lock
from airflow_slotgroups.airflow_core.tables import Pool
from airflow_slotgroups.airflow_core.typing import AnySelect
from airflow_slotgroups.domain.errors import BusyError


@dataclass(frozen=True)
class PoolRow:
    """A pool as it stands in Airflow."""

    pool: str
    slots: int
    include_deferred: bool
    description: str | None = None
    team_name: str | None = None


COLUMNS = (Pool.pool, Pool.slots, Pool.include_deferred, Pool.description, Pool.team_name)


def read_pools(session: Session, names: Collection[str]) -> dict[str, PoolRow]:
    """Read pools by name; those that do not exist are left out."""
    query: AnySelect = select(*COLUMNS).where(Pool.pool.in_(names))
    return {row.pool: PoolRow(*row) for row in session.execute(query)}


def lock_pools(session: Session, names: Iterable[str], *, wait: bool = True) -> dict[str, PoolRow]:
    """Lock pools in the order of their names, after the scheduler's critical section has ended.

    While they are locked no scheduler starts anything in the cluster, since it takes these rows NOWAIT: the
    transaction must be short.

    :param wait: False raises a database error at once when somebody holds one of the rows.
    """
    query: AnySelect = select(*COLUMNS).where(Pool.pool.in_(list(names))).order_by(Pool.pool)
    locking = wait_for_lock(query, session) if wait else no_wait(query, session)
    return {row.pool: PoolRow(*row) for row in session.execute(locking)}


def write_pools(session: Session, found: Mapping[str, PoolRow], wanted: Iterable[PoolRow]) -> None:
    """Write pools to what they should be, making those that are missing; never wait for a lock.

    :param found: the pools as they were when `wanted` was decided.
    :raises BusyError: somebody holds one of the rows, or has changed it since.
    """
    rows = sorted(wanted, key=lambda row: row.pool)
    query: AnySelect = select(*COLUMNS).where(Pool.pool.in_([row.pool for row in rows])).order_by(Pool.pool)
    try:
        now = {row.pool: PoolRow(*row) for row in session.execute(no_wait(query, session))}
    except DBAPIError as error:
        raise (BusyError("write the pools") if is_locked(error) else error) from error
    if any(now.get(row.pool) != found.get(row.pool) for row in rows):
        raise BusyError("write the pools")
    for row in rows:
        put_pool(session, row, exists=row.pool in now)


def put_pool(session: Session, row: PoolRow, *, exists: bool) -> None:
    """Insert or update one pool."""
    values = {
        "slots": row.slots,
        "include_deferred": row.include_deferred,
        "description": row.description,
        "team_name": row.team_name,
    }
    if exists:
        session.execute(update(Pool).where(Pool.pool == row.pool).values(**values))
    else:
        session.execute(insert(Pool).values(pool=row.pool, **values))


def delete_pool(session: Session, name: str) -> None:
    """Delete a pool."""
    session.execute(delete(Pool).where(Pool.pool == name))

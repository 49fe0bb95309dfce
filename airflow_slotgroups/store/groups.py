"""Groups as they are read, with their two pools, and their locks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import has_row_locks, skip_locked, wait_for_lock
from airflow_slotgroups.airflow_core.pools import PoolRow, read_pools
from airflow_slotgroups.domain.errors import UnknownGroupError
from airflow_slotgroups.domain.names import running_pool
from airflow_slotgroups.domain.snapshot import Group
from airflow_slotgroups.domain.states import Mode, Strategy
from airflow_slotgroups.models import SlotGroup, SlotGroupChange


@dataclass(frozen=True)
class StoredGroup:
    """A group with its two pools; a pool is None when it does not exist.

    :param row: our row, attached to the session that read it.
    :param pool: the pool that tasks name, closed.
    :param running: the pool in which its tasks run.
    """

    row: SlotGroup
    pool: PoolRow | None
    running: PoolRow | None

    @property
    def name(self) -> str:
        """Name of the group, which is that of its pool."""
        return self.row.pool

    @property
    def running_name(self) -> str:
        """Name of the pool in which its tasks run."""
        return running_pool(self.row.pool)

    @property
    def mode(self) -> Mode:
        """Its mode."""
        return Mode(self.row.mode)

    def planned(self) -> Group:
        """Return what the planner needs to know of it."""
        return Group(
            pool=self.name,
            size=self.row.slots,
            mode=self.mode,
            strategy=Strategy(self.row.strategy),
            max_passes=self.row.max_passes,
            admits_from=self.row.admits_from,
            pool_exists=self.pool is not None and self.running is not None,
        )


def load_groups(session: Session) -> list[StoredGroup]:
    """Read all groups, by name, without locks."""
    return with_pools(session, list(session.scalars(select(SlotGroup).order_by(SlotGroup.pool))))


def load_group(session: Session, name: str) -> StoredGroup:
    """Read one group without a lock.

    :raises UnknownGroupError: there is none.
    """
    row = session.get(SlotGroup, name, populate_existing=True)
    if row is None:
        raise UnknownGroupError(name)
    return with_pools(session, [row])[0]


def with_pools(session: Session, rows: Collection[SlotGroup]) -> list[StoredGroup]:
    """Add their pools, in one statement."""
    names = [name for row in rows for name in (row.pool, running_pool(row.pool))]
    pools = read_pools(session, names) if names else {}
    return [StoredGroup(row, pools.get(row.pool), pools.get(running_pool(row.pool))) for row in rows]


def lock_free_groups(session: Session, names: Collection[str]) -> list[StoredGroup]:
    """Lock the groups that no other coordinator or person has locked, and read them.

    One coordinator a group at a time (DESIGN rule 8). The first statement of its transaction.
    """
    query = select(SlotGroup).where(SlotGroup.pool.in_(names)).order_by(SlotGroup.pool)
    if not has_row_locks(session):
        begin_with_write(session, names)
    rows = session.scalars(skip_locked(query, session).execution_options(populate_existing=True)).all()
    return with_pools(session, rows)


def lock_group(session: Session, name: str) -> StoredGroup:
    """Lock one group, waiting for whoever has it, and read it. The first statement of its transaction.

    :raises UnknownGroupError: there is none.
    """
    if not has_row_locks(session):
        begin_with_write(session, [name])
    query = wait_for_lock(select(SlotGroup).where(SlotGroup.pool == name), session)
    row = session.scalars(query.execution_options(populate_existing=True)).one_or_none()
    if row is None:
        raise UnknownGroupError(name)
    return with_pools(session, [row])[0]


def begin_with_write(session: Session, names: Collection[str]) -> None:
    """Take the write lock at once where rows can not be locked (SQLite), or not by SELECT (MariaDB).

    A transaction that reads first and writes later would decide on what it read before others wrote.
    """
    session.execute(
        update(SlotGroup)
        .where(SlotGroup.pool.in_(names))
        .values(lock_count=1 - SlotGroup.lock_count)
        .execution_options(synchronize_session=False)
    )


def note_change(session: Session, group: SlotGroup, cause: str, now: datetime) -> None:
    """Keep a change of size or mode for the history."""
    group.updated_at = now
    session.add(
        SlotGroupChange(
            pool=group.pool,
            changed_at=now,
            slots=group.slots,
            mode=group.mode,
            cause=cause,
            comment=group.comment,
        )
    )

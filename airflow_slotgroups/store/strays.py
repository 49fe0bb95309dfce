"""Task instances in the wrong pool: home to the one that their DAG names, or inside (DESIGN rule 10)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, CompoundSelect, and_, exists, func, or_, select, true, union_all
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.tables import (
    BETWEEN_TRIES,
    HELD,
    SCHEDULED,
    TI,
    UNFINISHED,
    DagRun,
    Pool,
    real_run,
)
from airflow_slotgroups.airflow_core.task_instances import move_to_pool
from airflow_slotgroups.airflow_core.typing import AnyRow, AnySelect
from airflow_slotgroups.domain.names import UNLIMITED_POOL, running_pool
from airflow_slotgroups.models import SlotGroup
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import built_once, is_granted, same_task_instance
from airflow_slotgroups.store.use import executes_in, executes_unlimited, last_forced_request

AT_MOST = 1000


class Stray(NamedTuple):
    """A task instance that stands in the wrong one of a group's pools.

    :param home: the group's name, and that of its closed pool.
    """

    id: UUID
    home: str


def find_strays(session: Session, names: Collection[str], limit: int = AT_MOST) -> list[Stray]:
    """Find task instances that wait, or are between tries, without a granted request: in running pools, or forced.

    Of those in the pool of forced starts, home is the group in which they were last forced in.
    """
    home = {running_pool(name): name for name in names}
    rows = session.execute(strays_in(tuple(home)).limit(limit)).all()
    # MySQL finds "Warehouse.running" for "warehouse.running"; to Airflow's scheduler they are two.
    found = [Stray(ti_id, home[pool]) for ti_id, pool in rows if pool in home]
    forced = [ti_id for ti_id, pool in rows if pool == UNLIMITED_POOL]
    return found + (forced_strays(session, forced) if forced else [])


@built_once
def strays_in(pools: tuple[str, ...]) -> AnySelect:
    """Read what waits in pools without a grant; what nobody has ever forced in is left in that pool."""
    return select(TI.id, TI.pool).where(stands_in(pools), waits(), ~granted_and_scheduled())


def stands_in(pools: Collection[str]) -> ColumnElement[bool]:
    """The task instance stands in one of the running pools, or in the pool of forced starts and was forced in once."""
    return and_(TI.pool.in_((*pools, UNLIMITED_POOL)), or_(TI.pool != UNLIMITED_POOL, was_forced()))


def was_forced() -> ColumnElement[bool]:
    """Some try of the task instance was forced in."""
    return exists().where(same_task_instance(), R.forced == true()).correlate(TI)


def forced_strays(session: Session, ids: Collection[UUID]) -> list[Stray]:
    """Tell where task instances in the pool of forced starts belong."""
    query = (
        select(TI.id, R.pool)
        .join(R, and_(same_task_instance(), R.forced == true()))
        .where(TI.id.in_(ids))
        .order_by(R.id)
    )
    # The last request of each task instance counts.
    homes = {ti_id: pool for ti_id, pool in session.execute(query)}  # noqa: C416 - rows, not pairs
    return [Stray(ti_id, home) for ti_id, home in homes.items()]


def has_unasked(session: Session, names: Collection[str]) -> bool:
    """Tell whether there are strays, or tasks that use slots without a grant.

    It may say so of more than there is to do something about: of test runs, and of names that a database takes
    for another.
    """
    return session.execute(any_unasked(tuple(names))).first() is not None


@built_once
def any_unasked(names: tuple[str, ...]) -> CompoundSelect[Any]:
    """Read all of them: to find the first alone, a database may read whatever ever ran in these pools."""
    return union_all(
        strays_in(tuple(running_pool(name) for name in names)).with_only_columns(TI.id),
        select(TI.id).where(executes_in(names), ~is_granted()),
        select(TI.id).where(executes_unlimited(), was_forced(), ~is_granted()),
    )


def find_outsiders(session: Session, names: Collection[str], limit: int = AT_MOST) -> list[Stray]:
    """Find task instances that hold slots and are to start again from the closed pool, where nobody starts.

    They began there, since the pool was opened by hand or was just being adopted, and came back: from a
    trigger, or since they were stuck in queued (S29).
    """
    rows = session.execute(outsiders_in(tuple(names)).limit(limit))
    return [Stray(ti_id, pool) for ti_id, pool in rows if pool in names]


@built_once
def outsiders_in(names: tuple[str, ...]) -> AnySelect:
    """Read what is granted and to start again in closed pools."""
    return select(TI.id, TI.pool).where(TI.pool.in_(names), TI.state == SCHEDULED, is_granted())


def take_inside(session: Session, outsiders: Collection[Stray]) -> None:
    """Move them to the running pool, in which they have their slots."""
    for home in sorted({outsider.home for outsider in outsiders}):
        ids = [outsider.id for outsider in outsiders if outsider.home == home]
        still = and_(TI.pool == home, TI.state == SCHEDULED, is_granted())
        move_to_pool(session, ids, running_pool(home), still)


def find_forced_of(session: Session, name: str) -> list[Stray]:
    """Find the task instances of one group that were forced in and are unfinished."""
    query = (
        select(TI.id)
        .join(R, last_forced_request())
        .where(TI.pool == UNLIMITED_POOL, R.pool == name, unfinished())
    )
    return [Stray(ti_id, name) for ti_id in session.scalars(query)]


def unforced_in_unlimited(session: Session) -> list[AnyRow]:
    """Find unfinished task instances in the pool of forced starts that nobody has ever forced in."""
    query = (
        select(TI.dag_id, TI.run_id, TI.task_id)
        .where(TI.pool == UNLIMITED_POOL, TI.state.in_(HELD), ~was_forced())
        .limit(100)
    )
    return list(session.execute(query).all())


def waiting_without_pool(session: Session) -> dict[str, int]:
    """Count the task instances that are scheduled in pools that do not exist, by pool; not a group's missing ones."""
    known = select(Pool.pool).union(select(SlotGroup.pool))
    query = (
        select(TI.pool, func.count())
        .join(DagRun, and_(DagRun.dag_id == TI.dag_id, DagRun.run_id == TI.run_id))
        .where(TI.state == SCHEDULED, TI.pool.not_in(known), real_run())
        .group_by(TI.pool)
        .order_by(TI.pool)
        .limit(100)
    )
    return {pool: count for pool, count in session.execute(query)}  # noqa: C416 - rows, not pairs


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
    return [Stray(ti_id, home[pool]) for ti_id, pool in session.execute(query) if pool in home]


def unfinished_in(session: Session, pool: str) -> int:
    """Count the task instances that wait in a pool, or will when their next try comes."""
    query = select(func.count()).select_from(TI).where(TI.pool == pool, TI.state.in_(UNFINISHED))
    return session.scalar(query) or 0


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
        moved |= move_to_pool(
            session, ids, home, and_(TI.pool.in_((running_pool(home), UNLIMITED_POOL)), still)
        )
    return moved

"""How many slots of a group are in use: derived, never counted (DESIGN rule 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, and_, func, or_, select, true, union_all
from sqlalchemy.orm import Session, aliased

from airflow_slotgroups.airflow_core.tables import DEFERRED, EXECUTING, TI, DagRun, is_acquire, real_run
from airflow_slotgroups.airflow_core.typing import AnySelect
from airflow_slotgroups.domain.names import UNLIMITED_POOL, running_pool
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import GRANTED, built_once, is_granted

LATER = aliased(R)


def read_use(session: Session, names: Collection[str]) -> Counter[str]:
    """Read the slots in use of groups by name.

    One statement reads both halves, the granted requests and the tasks that ask for nothing: between two, a
    task could pass from one half to the other and be missed by both.
    """
    group_of = {pool: name for name in names for pool in (name, running_pool(name))}
    use: Counter[str] = Counter()
    for pool, slots in session.execute(slots_in_use(tuple(names))):
        # MySQL finds "Warehouse" for "warehouse"; to Airflow's scheduler they are two.
        if pool in group_of:
            use[group_of[pool]] += int(slots)
    return use


def read_granted(session: Session, names: Collection[str]) -> Counter[str]:
    """Read the slots of granted requests alone, which is cheap, by group."""
    return Counter({pool: int(slots) for pool, slots in session.execute(granted_slots(tuple(names)))})


@built_once
def slots_in_use(names: tuple[str, ...]) -> CompoundSelect[Any]:
    """Sum both halves, by group and by pool."""
    return union_all(granted_slots(names), stranger_slots(names), forced_stranger_slots(names))


@built_once
def granted_slots(names: tuple[str, ...]) -> AnySelect:
    """Slots of live granted requests."""
    return select(R.pool, func.sum(R.slots)).where(R.state == GRANTED, R.pool.in_(names)).group_by(R.pool)


def stranger_slots(names: Collection[str]) -> AnySelect:
    """Slots of tasks that execute in one of the two pools without a granted request."""
    return (
        select(TI.pool, func.sum(TI.pool_slots))
        .join(DagRun, and_(DagRun.dag_id == TI.dag_id, DagRun.run_id == TI.run_id))
        .where(executes_in(names), ~is_granted(), real_run())
        .group_by(TI.pool)
    )


def forced_stranger_slots(names: Collection[str]) -> AnySelect:
    """Slots of tasks whose forced try has ended, and that execute in the unlimited pool all the same."""
    return (
        select(R.pool, func.sum(TI.pool_slots))
        .select_from(TI)
        .join(R, last_forced_request())
        .where(executes_unlimited(), ~is_granted(), R.pool.in_(names))
        .group_by(R.pool)
    )


def executes_unlimited() -> ColumnElement[bool]:
    """A task instance uses slots in the pool of forced tasks."""
    return and_(TI.pool == UNLIMITED_POOL, TI.state.in_((*EXECUTING, DEFERRED)))


def last_forced_request(request: type[R] = R) -> ColumnElement[bool]:
    """The request by which a task instance was last forced in: its group pays for what it does there.

    :param request: an alias, where the query reads another request of the task instance too.
    """
    last = select(func.max(LATER.id)).where(of_task_instance(LATER), LATER.forced == true()).correlate(TI)
    return and_(of_task_instance(request), request.id == last.scalar_subquery())


def of_task_instance(request: type[R]) -> ColumnElement[bool]:
    """A request is for the task instance, whatever its try."""
    return and_(
        request.dag_id == TI.dag_id,
        request.run_id == TI.run_id,
        request.task_id == TI.task_id,
        request.map_index == TI.map_index,
    )


def executes_in(names: Collection[str], *, deferred_too: bool = False) -> ColumnElement[bool]:
    """A task instance counts in one of the pools; deferred ones in the running pool, acquires in none.

    :param deferred_too: deferred ones count in the pool that tasks name as well, as while it is adopted.
    """
    closed = (*EXECUTING, DEFERRED) if deferred_too else EXECUTING
    in_a_pool = or_(
        and_(TI.pool.in_(names), TI.state.in_(closed)),
        and_(TI.pool.in_([running_pool(name) for name in names]), TI.state.in_((*EXECUTING, DEFERRED))),
    )
    return and_(in_a_pool, or_(TI.state != DEFERRED, ~is_acquire()))

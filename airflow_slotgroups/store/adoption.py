"""Turning a pool into a slot group and back, with tasks in flight (DESIGN section 2, scenarios S70 to S72)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import has_row_locks
from airflow_slotgroups.airflow_core.pools import PoolRow, delete_pool, lock_pools, put_pool
from airflow_slotgroups.airflow_core.tables import DEFERRED, EXECUTING, TI
from airflow_slotgroups.airflow_core.task_instances import move_to_pool
from airflow_slotgroups.domain.errors import GroupInUseError, PoolNameTakenError, UnknownPoolError
from airflow_slotgroups.domain.names import running_pool
from airflow_slotgroups.domain.states import Admission, EndReason, Kind, Mode, Strategy
from airflow_slotgroups.models import SlotGroup
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.groups import StoredGroup, note_change, with_pools
from airflow_slotgroups.store.holders import count_strangers, find_strangers
from airflow_slotgroups.store.keys import GRANTED, WAITING, is_granted, live
from airflow_slotgroups.store.requests import end_requests
from airflow_slotgroups.store.sections import pass_through, waiting_acquires
from airflow_slotgroups.store.sizes import elsewhere, left_in_running, running_slots, slots_given_back
from airflow_slotgroups.store.strays import Stray, find_forced_of, find_leftovers, send_home, unfinished

SETTLING = timedelta(seconds=2)
"""Without row locks a scheduler may still start what it chose before the pool was closed."""

ALL = 1_000_000


@dataclass(frozen=True)
class GroupSettings:
    """How a group lets waiters in; the defaults are those of a new group."""

    strategy: Strategy = Strategy.STRICT
    max_passes: int = 10
    ageing_seconds: int = 0


def adopt_pool(
    session: Session, name: str, settings: GroupSettings, comment: str | None, now: datetime
) -> SlotGroup:
    """Turn pool `name` into a slot group, all in the caller's transaction.

    The pools are closed before the tasks are read, so that no scheduler can start one in between: the other
    way round tasks were left behind (DESIGN section 2).

    :raises UnknownPoolError: there is no such pool.
    :raises PoolNameTakenError: a foreign pool has the name of the running pool.
    """
    row = insert_group(session, name, settings, comment, now)
    pools = lock_pools(session, [name, running_pool(name)])
    if name not in pools:
        raise UnknownPoolError(name)
    if running_pool(name) in pools:
        raise PoolNameTakenError(running_pool(name))
    pool = pools[name]
    take_over_pool(session, row, pool, now)
    put_pool(session, replace(pool, slots=0, include_deferred=False), exists=True)
    put_pool(session, first_running_pool(row, pool), exists=False)
    adopt_tasks(session, row, pool, now)
    write_running_size(session, row)
    note_change(session, row, "adopt", now)
    return row


def insert_group(
    session: Session, name: str, settings: GroupSettings, comment: str | None, now: datetime
) -> SlotGroup:
    """Insert the group's row: the lock against whoever adopts the same pool, and the first write."""
    row = SlotGroup(
        pool=name,
        slots=0,
        mode=Mode.ACTIVE.value,
        strategy=settings.strategy.value,
        max_passes=settings.max_passes,
        ageing_seconds=settings.ageing_seconds,
        pool_include_deferred=False,
        comment=comment,
        lock_count=0,
        created_at=now,
        updated_at=now,
    )
    session.add(row)
    session.flush()
    return row


def take_over_pool(session: Session, row: SlotGroup, pool: PoolRow, now: datetime) -> None:
    """Remember what the pool was."""
    row.slots = pool.slots
    row.description = pool.description
    row.pool_include_deferred = pool.include_deferred
    if not has_row_locks(session):
        row.admits_from = now + SETTLING
    session.flush()


def first_running_pool(row: SlotGroup, pool: PoolRow) -> PoolRow:
    """The running pool as it is made, still shut: its size is written when the tasks are counted."""
    return PoolRow(
        running_pool(row.pool),
        slots=0,
        include_deferred=True,
        description=f"Tasks let in by slot group '{row.pool}'; managed there, edits are undone",
        team_name=pool.team_name,
    )


def adopt_tasks(session: Session, row: SlotGroup, pool: PoolRow, now: datetime) -> None:
    """Give the pool's executing tasks granted requests, then move them to the running pool.

    A task that somebody has locked stays in P and counts as use all the same, through its request.
    """
    counted = (*EXECUTING, DEFERRED) if pool.include_deferred else EXECUTING
    strangers = find_strangers(session, [row.pool], deferred_too=pool.include_deferred)
    count_strangers(session, strangers, [row.pool], Admission.ADOPTED, now)
    still = and_(TI.pool == row.pool, TI.state.in_(counted), is_granted())
    ids = session.scalars(select(TI.id).where(still)).all()
    move_to_pool(session, ids, running_pool(row.pool), still)


def write_running_size(session: Session, row: SlotGroup) -> None:
    """Open the running pool to its size, in rows that this transaction has locked already."""
    group = with_pools(session, [row])[0]
    assert group.running is not None
    slots = running_slots(group, elsewhere(session, [row.pool])[row.pool])
    put_pool(session, replace(group.running, slots=slots), exists=True)
    row.running_slots = slots


def dissolve_group(session: Session, group: StoredGroup, *, end_sections: bool, now: datetime) -> bool:
    """Turn a locked group back into an ordinary pool, all in the caller's transaction.

    What is locked by others goes home in later cycles; until then those slots are kept off the pool.

    :param end_sections: end holds of sections, and let waiting ones through, instead of refusing.
    :return: whether the group is gone already.
    :raises GroupInUseError: sections hold slots or wait, and `end_sections` is False.
    """
    if not end_sections:
        refuse_sections(session, group.name)
    group.row.mode = Mode.DISSOLVING.value
    end_all_requests(session, group.name, now)
    note_change(session, group.row, "dissolve", now)
    return go_on_dissolving(session, group, wait=True)


def refuse_sections(session: Session, name: str) -> None:
    """Refuse while sections wait or hold: their tasks rely on slots that would be gone."""
    query = (
        select(R.state, func.count())
        .where(R.pool == name, R.kind == Kind.SECTION.value, live())
        .group_by(R.state)
    )
    counts = Counter({row[0]: row[1] for row in session.execute(query)})
    counts[WAITING] = max(counts[WAITING], len(waiting_acquires(session, name)))
    if counts.total():
        raise GroupInUseError(
            name,
            waiting=counts[WAITING],
            holding=counts[GRANTED],
            remedy="these are sections: wait until they end, or end them with '--end-sections'",
        )


def end_all_requests(session: Session, name: str, now: datetime) -> None:
    """End every live request of the group."""
    ids = session.scalars(select(R.id).where(R.pool == name, R.state.in_((WAITING, GRANTED))))
    end_requests(session, dict.fromkeys(ids, EndReason.DISSOLVED), now)


def go_on_dissolving(session: Session, group: StoredGroup, *, wait: bool) -> bool:
    """Send home what is left in the running pool, give the pool its slots back, and go when all is home.

    :param wait: wait for whoever holds the pools; a cycle never does (rule 8).
    :return: whether the group is gone.
    :raises DBAPIError: the pools are locked; what was done is to be rolled back.
    """
    # Nobody would ever let acquires in, and an ordinary pool has nothing for them to hold. Before the pools
    # are locked, since ending them takes a while.
    locked = pass_through(session, waiting_acquires(session, group.name))
    pools = lock_pools(session, [group.name, group.running_name], wait=wait)
    send_home(session, leftovers_of(session, group.name), unfinished())
    if pool := pools.get(group.name):
        put_pool(session, opened_pool(session, group, pool), exists=True)
    if not locked and not leftovers_of(session, group.name):
        remove_group(session, group)
        return True
    if running := pools.get(group.running_name):
        put_pool(session, replace(running, slots=0), exists=True)
    return False


def leftovers_of(session: Session, name: str) -> list[Stray]:
    """Whatever is unfinished in the running pool, and in that of forced tasks."""
    return find_leftovers(session, [name], limit=ALL) + find_forced_of(session, name)


def opened_pool(session: Session, group: StoredGroup, pool: PoolRow) -> PoolRow:
    """The pool as it was before, less the slots that are still held in the running pool."""
    left = left_in_running(session, group.name)
    return replace(
        pool, slots=slots_given_back(group.row.slots, left), include_deferred=group.row.pool_include_deferred
    )


def remove_group(session: Session, group: StoredGroup) -> None:
    """Delete the running pool and our row; ended requests stay, for the history."""
    delete_pool(session, group.running_name)
    session.delete(group.row)
    session.flush()

"""What the two pools of each group should be, and keeping them so (DESIGN rule 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import CompoundSelect, and_, func, select, union_all
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.pools import PoolRow, write_pools
from airflow_slotgroups.airflow_core.tables import EXECUTING, PARKED, TI, DagRun, real_run
from airflow_slotgroups.airflow_core.typing import AnySelect
from airflow_slotgroups.domain.errors import BusyError
from airflow_slotgroups.domain.names import UNLIMITED_POOL, running_pool
from airflow_slotgroups.domain.snapshot import UNLIMITED
from airflow_slotgroups.domain.states import Kind, Mode
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.groups import StoredGroup, note_change
from airflow_slotgroups.store.keys import GRANTED, built_once, same_live_try
from airflow_slotgroups.store.use import last_forced_request


def elsewhere(session: Session, names: Collection[str]) -> Counter[str]:
    """Slots of each group that its running pool can not see: sections, forced tasks, tasks executing in P."""
    use: Counter[str] = Counter()
    if names:
        for pool, slots in session.execute(slots_elsewhere(tuple(names))):
            use[pool] += int(slots)
    return use


@built_once
def slots_elsewhere(names: tuple[str, ...]) -> CompoundSelect[Any]:
    """Sum those slots in one statement."""
    return union_all(section_slots(names), forced_slots(names), executing_in(names))


def section_slots(names: Collection[str]) -> AnySelect:
    """Slots held by sections."""
    return (
        select(R.pool, func.sum(R.slots))
        .where(R.state == GRANTED, R.kind == Kind.SECTION.value, R.pool.in_(names))
        .group_by(R.pool)
    )


def forced_slots(names: Collection[str]) -> AnySelect:
    """Slots of forced tasks, which run in the unlimited pool."""
    return (
        select(R.pool, func.sum(R.slots))
        .join(TI, same_live_try())
        .where(R.state == GRANTED, R.pool.in_(names), TI.pool == UNLIMITED_POOL)
        .group_by(R.pool)
    )


def executing_in(pools: Collection[str]) -> AnySelect:
    """Slots of tasks that execute in pools that should be closed; those of `dag.test()` are nobody's (S49)."""
    return (
        select(TI.pool, func.sum(TI.pool_slots))
        .join(DagRun, and_(DagRun.dag_id == TI.dag_id, DagRun.run_id == TI.run_id))
        .where(TI.pool.in_(pools), TI.state.in_(EXECUTING), real_run())
        .group_by(TI.pool)
    )


def left_in_running(session: Session, name: str) -> int:
    """Slots still held, in the running pool and in that of forced tasks, of a group that is being dissolved."""
    held = TI.state.in_((*EXECUTING, *PARKED))
    query = select(func.sum(TI.pool_slots)).where(TI.pool == running_pool(name), held)
    forced = (
        select(func.sum(TI.pool_slots))
        .join(R, last_forced_request())
        .where(TI.pool == UNLIMITED_POOL, R.pool == name, held)
    )
    return int(session.scalar(query) or 0) + int(session.scalar(forced) or 0)


def edited_by_hand(group: StoredGroup) -> bool:
    """Tell whether somebody has opened the closed pool, which is read as a resize (DESIGN section 2)."""
    return group.pool is not None and group.pool.slots != 0


def take_edit(session: Session, group: StoredGroup, now: datetime) -> None:
    """Take the slots that somebody gave the closed pool as the group's new size."""
    assert group.pool is not None
    group.row.slots = group.pool.slots
    group.row.notice = (
        f"pool '{group.name}' was set to {group.pool.slots} slots by hand at {now:%Y-%m-%d %H:%M:%S} UTC:"
        " taken as the group's size, and the pool closed again"
    )
    note_change(session, group.row, "pool edited", now)


def wanted_pools(group: StoredGroup, unseen: int) -> list[PoolRow]:
    """Return the group's pools as they should be, those alone that differ from what they are.

    A pool P that was deleted is not made again: that is for people to decide, and `check` says so.

    :param unseen: slots in use that the running pool can not see.
    """
    if group.pool is None:
        return []
    # The closed pool counts no deferred tasks: acquires wait there, and those hold nothing.
    closed = replace(group.pool, slots=0, include_deferred=False)
    running = PoolRow(
        group.running_name,
        slots=running_slots(group, unseen),
        include_deferred=True,
        description=f"Tasks let in by slot group '{group.name}'; managed there, edits are undone",
        team_name=group.pool.team_name,
    )
    pairs = ((closed, group.pool), (running, group.running))
    return [wanted for wanted, found in pairs if wanted != found]


def running_slots(group: StoredGroup, unseen: int) -> int:
    """Slots of the running pool: the size less what is in use where that pool can not see it."""
    if group.row.slots == UNLIMITED or group.mode is Mode.BYPASS:
        return UNLIMITED
    return max(0, group.row.slots - unseen)


def slots_given_back(size: int, left: int) -> int:
    """Slots of the pool of a group that is being dissolved: what is still held elsewhere is kept off."""
    return UNLIMITED if size == UNLIMITED else max(0, size - left)


def note_amended(group: StoredGroup, now: datetime) -> None:
    """Say that somebody's edit of the running pool is undone, or that the pool is made again."""
    ours = group.row.running_slots
    if ours is None:
        return
    when = f"at {now:%Y-%m-%d %H:%M:%S} UTC"
    if group.running is None:
        group.row.notice = f"pool '{group.running_name}' was missing {when}: made again"
    elif group.running.slots != ours:
        group.row.notice = (
            f"pool '{group.running_name}' was set to {group.running.slots} slots by hand {when}: undone;"
            " change the group's size with 'airflow slotgroups set'"
        )


def keep_pools(
    session: Session, groups: Sequence[StoredGroup], now: datetime, *, heed_edits: bool = True
) -> bool:
    """Bring the pools of locked groups to what they should be; the last statements of a transaction.

    The scheduler takes these rows NOWAIT: while we hold one, nothing in the cluster is scheduled. So they are
    written only when they differ, never waited for, and the commit follows at once.

    :param heed_edits: take an edit by hand as the size; not where a size was just given.
    :return: False, with nothing changed, when somebody held a row; the next cycle tries again.
    """
    try:
        with session.begin_nested():
            amend_pools(session, groups, now, heed_edits)
    except BusyError:
        return False
    return True


def amend_pools(session: Session, groups: Sequence[StoredGroup], now: datetime, heed_edits: bool) -> None:
    """Take edits by hand as what they mean, and write what differs."""
    for group in groups:
        if heed_edits and edited_by_hand(group):
            take_edit(session, group, now)
    changes = pools_to_write(session, groups)
    for group, rows in changes:
        note_amended(group, now)
        written = {row.pool: row.slots for row in rows}
        group.row.running_slots = written.get(group.running_name, group.row.running_slots)
    session.flush()
    found = {row.pool: row for group in groups for row in (group.pool, group.running) if row is not None}
    write_pools(session, found, [row for _, rows in changes for row in rows])


def pools_to_write(
    session: Session, groups: Sequence[StoredGroup]
) -> list[tuple[StoredGroup, list[PoolRow]]]:
    """Tell for each group, none of them dissolving, which of its pools differ from what they should be."""
    unseen = elsewhere(session, [group.name for group in groups])
    wanted = [(group, wanted_pools(group, unseen[group.name])) for group in groups]
    return [(group, rows) for group, rows in wanted if rows]

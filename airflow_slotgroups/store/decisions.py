"""One decision for one group: read a snapshot, plan, apply it, all in the caller's transaction (rule 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, bindparam, func, null, select, update
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.dags import release_of
from airflow_slotgroups.airflow_core.events import succeed
from airflow_slotgroups.airflow_core.tables import SCHEDULED, TI
from airflow_slotgroups.airflow_core.task_instances import move_to_pool
from airflow_slotgroups.domain.names import UNLIMITED_POOL, running_pool
from airflow_slotgroups.domain.planner import Plan, free_slots, plan, why_not_startable
from airflow_slotgroups.domain.snapshot import Group, Snapshot
from airflow_slotgroups.domain.states import Admission, Kind
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.groups import StoredGroup
from airflow_slotgroups.store.keys import GRANTED, WAITING
from airflow_slotgroups.store.queue import Place, QueuedTask, candidates
from airflow_slotgroups.store.requests import lock_requests, put_back, put_off
from airflow_slotgroups.store.sections import waits_for_slots
from airflow_slotgroups.store.use import read_use

BATCH = 200
"""Waiters read at a time."""
MOST_GRANTS = 500
"""Requests let in by one decision, so that its transaction is short however long the queue."""
SPARE = 20
"""Waiters read at first beside one for each free slot."""


@dataclass(frozen=True)
class Decision:
    """A plan and the rows that it speaks of."""

    plan: Plan
    tasks: dict[int, QueuedTask]


def decide(
    session: Session,
    group: StoredGroup,
    now: datetime,
    *,
    enough: int = MOST_GRANTS,
    without: Collection[int] = (),
) -> Decision:
    """Read the group's use and its waiters, and plan.

    Reads on, batch by batch, only while there is room for a waiter that has not been looked at: each batch
    leaves out what the plan has starved, so that a run at its limit costs one batch and not its whole length.

    :param enough: stop when so many are to be let in; the next cycle goes on.
    :param without: requests to leave out, since they could not be let in a moment ago.
    """
    planned = group.planned()
    used = read_use(session, [group.name])[group.name]
    tasks: dict[int, QueuedTask] = {}
    result: Plan | None = None
    after: Place | None = None
    while True:
        size = first_batch(planned, used) if result is None else BATCH
        batch = candidates(session, planned, now, size, result, after, without)
        result = plan(Snapshot(planned, used, tuple(task.waiter for task in batch), now), result)
        tasks |= {task.waiter.id: task for task in batch}
        if len(batch) < size or len(result.grants) >= enough or not result.has_room_behind(planned):
            return Decision(result, tasks)
        after = batch[-1].place


def first_batch(group: Group, used: int) -> int:
    """How many waiters to read at first: one for each free slot, and a few that may be passed over."""
    free = free_slots(group, used)
    return BATCH if free is None else min(BATCH, free + SPARE)


def let_in(session: Session, group: StoredGroup, decision: Decision, now: datetime) -> list[QueuedTask]:
    """Move the chosen tasks to the running pool, end the chosen acquires, and mark their requests granted.

    A task instance that somebody has locked, or that waits no longer, stays out; the next cycle decides anew.

    :return: those that were let in.
    """
    free = set(lock_requests(session, [waiter.id for waiter in decision.plan.grants]))
    chosen = [decision.tasks[waiter.id] for waiter in decision.plan.grants if waiter.id in free]
    tasks = [task for task in chosen if task.waiter.kind is Kind.TASK]
    moved = let_tasks_in(session, [t for t in tasks if not t.waiter.forced], group.name, group.running_name)
    # Past the capacity, and so past the running pool's limit as well.
    moved |= let_tasks_in(session, [t for t in tasks if t.waiter.forced], group.name, UNLIMITED_POOL)
    moved |= let_sections_in(session, [t for t in chosen if t.waiter.kind is Kind.SECTION], now)
    granted = [task for task in chosen if task.ti_id in moved]
    mark_granted(session, granted, now)
    if granted:
        count_passes(session, decision.plan)
    return granted


def let_tasks_in(session: Session, tasks: Sequence[QueuedTask], pool: str, to_pool: str) -> set[Any]:
    """Move tasks that still wait to the pool in which they run."""
    still = and_(TI.state == SCHEDULED, TI.pool == pool)
    return move_to_pool(session, [task.ti_id for task in tasks], to_pool, still)


def let_sections_in(session: Session, sections: Sequence[QueuedTask], now: datetime) -> set[Any]:
    """End acquires as success, so that their requests live on as holds; an acquire that can not end waits on."""
    ended = succeed(session, [section.ti_id for section in sections], waits_for_slots())
    for section in sections:
        if why := ended.failed.get(section.ti_id):
            put_off(session, section.waiter.id, f"it could not be let in: {why}", now)
    return ended.done


def mark_granted(session: Session, tasks: Sequence[QueuedTask], now: datetime) -> None:
    """Turn waiting requests into granted ones."""
    if not tasks:
        return
    statement = (
        update(R.__table__)  # type: ignore[arg-type]  # declared as FromClause, is a Table
        .where(R.id == bindparam("request_id"), R.state == WAITING)
        .values(
            state=GRANTED,
            granted_at=now,
            admission=bindparam("how"),
            ti_scheduled_at=bindparam("scheduled_at"),
            ti_queued_at=bindparam("queued_at"),
            release_task_id=bindparam("release"),
            not_before=null(),
            notice=null(),
        )
    )
    session.connection().execute(statement, [grant_values(session, task) for task in tasks])


def grant_values(session: Session, task: QueuedTask) -> dict[str, Any]:
    """What a grant remembers: to tell later whether it came to something, and what ends a section."""
    section = task.waiter.kind is Kind.SECTION
    return {
        "request_id": task.waiter.id,
        "how": (Admission.FORCED if task.waiter.forced else Admission.QUEUE).value,
        "scheduled_at": task.ti_scheduled_at,
        "queued_at": task.ti_queued_at,
        "release": release_of(session, task.waiter.run, task.waiter.task_id) if section else None,
    }


def count_passes(session: Session, decided: Plan) -> None:
    """Remember how often the head was passed, so that it is a bounded number over all cycles."""
    for request_id in lock_requests(session, list(decided.passes)):
        times = decided.passes[request_id]
        session.execute(
            update(R)
            .where(R.id == request_id)
            .values(passes=R.passes + times)
            .execution_options(synchronize_session=False)
        )


def take_back(
    session: Session, tasks: Sequence[QueuedTask], not_before: datetime | None, notice: str | None = None
) -> list[QueuedTask]:
    """Take back grants that the scheduler has not used; they wait again, in their old places.

    :param not_before: when they may be let in again; None for at once.
    :param notice: what to tell people about it.
    :return: those that wait again.
    """
    free = set(lock_requests(session, [task.waiter.id for task in tasks]))
    tasks = [task for task in tasks if task.waiter.id in free]
    moved: set[Any] = set()
    for pool in sorted({task.pool for task in tasks}):
        still = and_(TI.state == SCHEDULED, TI.pool.in_((running_pool(pool), UNLIMITED_POOL)))
        ids = [task.ti_id for task in tasks if task.pool == pool and task.ti_id]
        moved |= move_to_pool(session, ids, pool, still)
    back = [task for task in tasks if task.ti_id in moved]
    put_back(session, [task.waiter.id for task in back], not_before, notice)
    return back


def cannot_start(task: QueuedTask, now: datetime) -> bool:
    """Ask the planner's own rule about a single request."""
    alone = Snapshot(Group(task.pool, 0), 0, (task.waiter,), now)
    return why_not_startable(task.waiter, alone, Plan(free=None)) is not None


def without_room(
    session: Session, groups: Sequence[StoredGroup], idle: Sequence[QueuedTask], leaving: Collection[int]
) -> list[QueuedTask]:
    """Pick unused grants for which there is no room any more, since their group has shrunk: the last ones first.

    The running pool has shrunk too, so that the scheduler would never start some of them.

    :param leaving: holders whose slots are given back anyway.
    """
    staying = [task for task in idle if task.waiter.id not in leaving and not task.waiter.forced]
    if not staying:
        return []
    use = read_use(session, {task.pool for task in staying})
    use.subtract(slots_of(session, leaving))
    sizes = {group.name: free_slots(group.planned(), 0) for group in groups}
    picked = []
    for task in sorted(staying, key=lambda task: task.place, reverse=True):
        size = sizes.get(task.pool)
        if size is not None and use[task.pool] > size:
            use[task.pool] -= task.waiter.slots
            picked.append(task)
    return picked


def slots_of(session: Session, ids: Collection[int]) -> Counter[str]:
    """Sum the slots of some requests, by group."""
    query = select(R.pool, func.sum(R.slots)).where(R.id.in_(ids)).group_by(R.pool)
    return Counter({pool: int(slots) for pool, slots in session.execute(query)})

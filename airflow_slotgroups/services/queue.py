"""The queue of a group, as people read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.clock import utcnow
from airflow_slotgroups.domain.discretion import MaySee, told
from airflow_slotgroups.domain.estimate import Estimate, Standing, estimates
from airflow_slotgroups.domain.planner import free_slots, plan
from airflow_slotgroups.domain.reasons import Code, Reason
from airflow_slotgroups.domain.snapshot import Snapshot, TaskKey
from airflow_slotgroups.domain.states import Admission, Kind, Mode, RequestState
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.services.groups import find_group
from airflow_slotgroups.services.transaction import read
from airflow_slotgroups.store.estimates import read_holders, read_samples
from airflow_slotgroups.store.groups import StoredGroup
from airflow_slotgroups.store.keys import GRANTED, SECTION
from airflow_slotgroups.store.queue import QueuedTask, count_live, waiting_in
from airflow_slotgroups.store.sections import section_tasks, waits_beside_hold
from airflow_slotgroups.store.use import read_use

PAGE = 1000
LOOK_AT = 10_000
"""Waiters looked at, from the head of the queue, for those that are asked for."""

WAIT_FOR_SLOTS = (Code.NEXT_IN.value, Code.NO_ROOM.value, Code.BEHIND_HEAD.value)
"""What holds those alone whose start can be estimated."""

HOLDER_WORDS = {
    Admission.QUEUE.value: "holds its slots",
    Admission.FORCED.value: "holds its slots, started by force",
    Admission.OUTSIDE.value: "runs outside the queue, and is counted",
    Admission.ADOPTED.value: "holds its slots since before the pool was adopted",
}


@dataclass(frozen=True)
class QueueEntry:
    """One live request.

    :param position: place in the queue, from 1; None for a holder.
    :param since: when it arrived, or when it was granted.
    :param reason_code: a word for machines; the reason is one sentence for people.
    :param reason_dag: another DAG that the reason names, and
    :param reason_unnamed: the reason without that name.
    :param estimate: when a waiter may start; None when nothing can be said.
    """

    position: int | None
    state: RequestState
    request_id: int
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    slots: int
    priority: int
    since: datetime
    seconds: float
    reason_code: str
    reason: str
    kind: Kind = Kind.TASK
    notice: str | None = None
    reason_dag: str | None = None
    reason_unnamed: str | None = None
    estimate: Estimate | None = None

    def reason_for(self, may_see: MaySee) -> str:
        """Return the reason as a reader may hear it."""
        return told(self.reason, self.reason_unnamed, self.reason_dag, may_see)


def queue_of(name: str, limit: int = PAGE) -> list[QueueEntry]:
    """Return holders first, then waiters in the order in which they are let in, each with its reason.

    :param limit: waiters at most.
    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    """
    return read(lambda session: queue_in(session, name, limit))


def queue_in(session: Session, name: str, limit: int) -> list[QueueEntry]:
    """Read both halves in one session."""
    group = find_group(session, name)
    now = utcnow()
    return holders(session, group, now) + waiters(session, group, limit, now)


@dataclass(frozen=True)
class Page:
    """A part of a list.

    :param total: how many there are in all.
    """

    entries: list[QueueEntry]
    total: int


Keep = Callable[[QueueEntry], bool]
"""Which entries are asked for."""


def waiters_of(name: str, limit: int, offset: int = 0, keep: Keep | None = None) -> Page:
    """Return a page of those who wait; their places are those in the whole queue.

    :param keep: these alone, among the first `LOOK_AT`.
    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    """
    return read(lambda session: waiters_page(session, name, limit, offset, keep))


def waiters_page(session: Session, name: str, limit: int, offset: int, keep: Keep | None) -> Page:
    """Plan from the head of the queue on: who is before decides on who is behind."""
    group, now = find_group(session, name), utcnow()
    entries = waiters(session, group, LOOK_AT if keep is not None else offset + limit, now)
    meant = entries if keep is None else [entry for entry in entries if keep(entry)]
    total = count_live(session, name).waiting if keep is None else len(meant)
    return Page(with_estimates(session, group, entries, meant[offset : offset + limit], now), total)


def with_estimates(
    session: Session, group: StoredGroup, queue: Sequence[QueueEntry], some: list[QueueEntry], now: datetime
) -> list[QueueEntry]:
    """Add to some waiters when they may start.

    :param queue: all who wait, from the head on to the last of them at least.
    """
    waiting = [
        Standing(entry.request_id, TaskKey(entry.dag_id, entry.task_id), entry.slots)
        for entry in queue
        if entry.reason_code in WAIT_FOR_SLOTS
    ]
    planned = group.planned()
    if not some or not waiting or planned.mode is not Mode.ACTIVE or free_slots(planned, 0) is None:
        return some
    holding = read_holders(session, group.name, now)
    found = estimates(planned.size, holding, waiting, read_samples(session, group.name))
    return [replace(entry, estimate=found.get(entry.request_id)) for entry in some]


def holders_of(name: str, limit: int, offset: int = 0, keep: Keep | None = None) -> Page:
    """Return a page of those who hold slots.

    :param keep: these alone.
    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    """
    return read(lambda session: holders_page(session, name, limit, offset, keep))


def holders_page(session: Session, name: str, limit: int, offset: int, keep: Keep | None) -> Page:
    """Read them all: their number is bounded by the group's size."""
    entries = holders(session, find_group(session, name), utcnow())
    entries = [entry for entry in entries if keep is None or keep(entry)]
    return Page(entries[offset : offset + limit], len(entries))


def holders(session: Session, group: StoredGroup, now: datetime) -> list[QueueEntry]:
    """Read who holds slots, the longest first."""
    query = select(R).where(R.pool == group.name, R.state == GRANTED).order_by(R.granted_at, R.id)
    return [holder_entry(session, request, now) for request in session.scalars(query)]


def holder_entry(session: Session, request: R, now: datetime) -> QueueEntry:
    """Describe a holder."""
    since = request.granted_at or request.enqueued_at
    admission = request.admission or Admission.QUEUE.value
    words, notice = HOLDER_WORDS[admission], request.notice
    if request.kind == SECTION:
        words += section_words(section_tasks(session, request))
        if notice and not waits_beside_hold(session, request):
            notice = None
    return QueueEntry(
        position=None,
        state=RequestState.GRANTED,
        request_id=request.id,
        dag_id=request.dag_id,
        run_id=request.run_id,
        task_id=request.task_id,
        map_index=request.map_index,
        try_number=request.try_number,
        slots=request.slots,
        priority=request.priority,
        since=since,
        seconds=(now - since).total_seconds(),
        reason_code=admission,
        reason=words,
        kind=Kind(request.kind),
        notice=notice,
    )


def section_words(running: Sequence[str]) -> str:
    """Say what of a section runs now, for a hold that may last long."""
    return (
        f" for a section; running now: {', '.join(running)}"
        if running
        else " for a section; nothing of it runs now"
    )


def waiters(session: Session, group: StoredGroup, limit: int, now: datetime) -> list[QueueEntry]:
    """Read who waits, and ask the planner why: the very function that lets them in."""
    tasks = waiting_in(session, group.name, limit)
    used = read_use(session, [group.name])[group.name]
    reasons = plan(Snapshot(group.planned(), used, tuple(t.waiter for t in tasks), now)).reasons
    return [
        waiter_entry(task, position, reasons[task.waiter.id], now)
        for position, task in enumerate(tasks, start=1)
    ]


def waiter_entry(task: QueuedTask, position: int, reason: Reason, now: datetime) -> QueueEntry:
    """Describe a waiter."""
    waiter = task.waiter
    return QueueEntry(
        position=position,
        state=RequestState.WAITING,
        request_id=waiter.id,
        dag_id=waiter.dag_id,
        run_id=waiter.run_id,
        task_id=waiter.task_id,
        map_index=waiter.map_index,
        try_number=task.try_number,
        slots=waiter.slots,
        priority=task.priority,
        since=task.arrived_at,
        seconds=(now - task.arrived_at).total_seconds(),
        reason_code=reason.code.value,
        reason=words_for(reason.code, reason.text),
        kind=waiter.kind,
        notice=waiter.notice,
        reason_dag=reason.dag_id,
        reason_unnamed=reason.unnamed,
    )


def words_for(code: Code, text: str) -> str:
    """A waiter that the planner would let in is let in by the coordinator, not by whoever looks."""
    return "is let in by the coordinator's next cycle" if code is Code.NEXT_IN else text

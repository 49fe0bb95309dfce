"""Levers on waiting requests: one or many, each action whole or not at all, and in the audit log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.audit import write_audit
from airflow_slotgroups.airflow_core.clock import utcnow
from airflow_slotgroups.domain.errors import (
    DissolvingError,
    InvalidValueError,
    NothingFoundError,
    RequestStateError,
)
from airflow_slotgroups.domain.order import priority_before
from airflow_slotgroups.domain.states import Mode, RequestState
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.models import SlotRequest
from airflow_slotgroups.services.groups import find_group
from airflow_slotgroups.services.queue import QueueEntry, queue_of
from airflow_slotgroups.services.transaction import read, transact
from airflow_slotgroups.store import levers
from airflow_slotgroups.store.groups import StoredGroup, lock_group


@dataclass(frozen=True)
class Order:
    """What somebody wants done.

    :param dags: the DAGs on whose requests he may act, as they were when that was asked; None for all.
    """

    group: str
    which: Sequence[Which]
    action: str
    who: str
    comment: str | None
    dags: Collection[str] | None = None

    def covers(self, dag_id: str) -> bool:
        """Tell whether requests of a DAG are meant at all."""
        return self.dags is None or dag_id in self.dags


Pull = Callable[[Session, StoredGroup, Sequence[SlotRequest]], None]
PRIORITIES = range(-(2**31), 2**31)


Dags = Collection[str] | None
"""The DAGs on whose requests one may act; None for all. Others are as if they were not there."""


def force_start(
    name: str, which: Sequence[Which], *, who: str, comment: str | None = None, dags: Dags = None
) -> list[QueueEntry]:
    """Let waiters in with the next cycle, past the queue, the capacity and a pause of the group; suspended ones too.

    Not past a paused DAG, max_active_tasks or the like: the reasons that come back name what still holds them.
    Doing it twice is doing it once.

    :return: the requests as the queue shows them now.
    :raises NothingFoundError: no such request.
    :raises RequestStateError: it holds slots already, or has ended; nothing was changed.
    """
    order = Order(name, which, "force-start", who, comment, dags)
    return pull(order, lambda s, _group, found: levers.force(s, found))


def prioritize(
    name: str,
    which: Sequence[Which],
    priority: int | None,
    *,
    who: str,
    comment: str | None = None,
    dags: Dags = None,
) -> list[QueueEntry]:
    """Give waiters another priority, bigger goes first.

    :param priority: None puts them before all others ("to top"), in their present order.
    :raises InvalidValueError, NothingFoundError, RequestStateError: nothing was changed.
    """
    if priority is not None and priority not in PRIORITIES:
        raise InvalidValueError("priority", priority, "give a whole number of 32 bits; bigger goes first")
    order = Order(name, which, "to-top" if priority is None else "prioritize", who, comment, dags)
    return pull(order, lambda s, g, found: set_priority(s, g, found, priority))


def suspend(
    name: str, which: Sequence[Which], *, who: str, comment: str | None = None, dags: Dags = None
) -> list[QueueEntry]:
    """Pass waiters over until they are unsuspended; they keep their places.

    :raises NothingFoundError, RequestStateError: nothing was changed.
    """
    order = Order(name, which, "suspend", who, comment, dags)
    return pull(order, lambda _s, _group, found: levers.suspend(found, True))


def unsuspend(
    name: str, which: Sequence[Which], *, who: str, comment: str | None = None, dags: Dags = None
) -> list[QueueEntry]:
    """Let suspended waiters take part again, in their old places.

    :raises NothingFoundError, RequestStateError: nothing was changed.
    """
    order = Order(name, which, "unsuspend", who, comment, dags)
    return pull(order, lambda _s, _group, found: levers.suspend(found, False))


def set_priority(
    session: Session, group: StoredGroup, requests: Sequence[SlotRequest], priority: int | None
) -> None:
    """Set a priority, or that which brings each before all the others."""
    if priority is not None:
        levers.prioritize(group.row, requests, priority)
        return
    first = levers.first_place(session, group.name, [request.id for request in requests])
    if first is not None:
        bring_before(group, [request for request in requests if not request.forced], first)


def bring_before(group: StoredGroup, requests: Sequence[SlotRequest], first: int) -> None:
    """Bring requests before a place, the last one first, so that each stays before the one behind it.

    :param requests: in their present order.
    :param first: the first sort key of that place.
    """
    for request in reversed(requests):
        if request.order_major >= first:
            priority = priority_before(first, request.arrived_at, group.row.ageing_seconds)
            if priority not in PRIORITIES:
                raise InvalidValueError("priority", priority, "lower that of the first waiter before")
            levers.prioritize(group.row, [request], priority)
        first = request.order_major


def pull(order: Order, lever: Pull) -> list[QueueEntry]:
    """Do one action to all requests that are meant, in one transaction; return them as they are now."""
    transact(f"{order.action} in '{order.group}'", lambda s: pull_in(s, order, lever))
    return shown(order)


def pull_in(session: Session, order: Order, lever: Pull) -> None:
    """Lock the group, find the waiters, act, and log the action for each."""
    find_group(session, order.group)
    group = lock_group(session, order.group)
    if group.mode is Mode.DISSOLVING:
        raise DissolvingError(order.group)
    found = {r.id: r for part in order.which for r in waiting_only(session, order, part)}
    waiters = sorted(found.values(), key=lambda r: (r.order_major, r.order_minor, r.id))
    old = {request.id: settings_of(request) for request in waiters}
    lever(session, group, waiters)
    # What may be let in is another since now: `check` counts from here.
    group.row.updated_at = utcnow()
    session.flush()
    levers.take_comment(session, waiters, order.comment)
    for request in waiters:
        log_action(session, request, order, old[request.id])


def waiting_only(session: Session, order: Order, which: Which) -> list[SlotRequest]:
    """Return those that wait; refuse when none does, and say what they do instead."""
    found = [r for r in levers.find_requests(session, order.group, which) if order.covers(r.dag_id)]
    if not found:
        raise NothingFoundError(order.group, str(which))
    waiting = [request for request in found if request.state == RequestState.WAITING.value]
    if not waiting:
        raise RequestStateError(order.action, label(found[0]), found[0].state)
    return waiting


def dags_of(name: str, which: Sequence[Which]) -> set[str]:
    """Name the DAGs whose requests are meant, so that it can be asked who may.

    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    """
    return read(lambda s: dags_in(s, name, which))


def dags_in(session: Session, name: str, which: Sequence[Which]) -> set[str]:
    """Read them."""
    find_group(session, name)
    return {r.dag_id for part in which for r in levers.find_requests(session, name, part)}


def label(request: SlotRequest) -> str:
    """Name a request's task for people."""
    mapped = f"[{request.map_index}]" if request.map_index >= 0 else ""
    return f"{request.dag_id}.{request.task_id}{mapped} (run {request.run_id})"


def settings_of(request: SlotRequest) -> dict[str, object]:
    """Return what the levers change."""
    return {"priority": request.priority, "forced": request.forced, "suspended": request.suspended}


def log_action(session: Session, request: SlotRequest, order: Order, old: dict[str, object]) -> None:
    """Write the audit entry of one request."""
    task = (request.dag_id, request.run_id, request.task_id, request.map_index, request.try_number)
    write_audit(
        session,
        order.action,
        who=order.who,
        task=task,
        group=request.pool,
        old=old,
        new=settings_of(request),
        comment=order.comment,
    )


def shown(order: Order) -> list[QueueEntry]:
    """Return the requests that are meant as the queue shows them."""
    return [
        entry
        for entry in queue_of(order.group)
        if order.covers(entry.dag_id) and any(means(part, entry) for part in order.which)
    ]


def means(which: Which, entry: QueueEntry) -> bool:
    """Tell whether an entry of the queue is meant."""
    return all(getattr(entry, name) == value for name, value in which.given().items())

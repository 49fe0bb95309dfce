"""Holders: ending those whose try has ended, and counting on sight those that never asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import and_, insert, null, or_, select, update
from sqlalchemy.orm import Session, aliased

from airflow_slotgroups.airflow_core.tables import TI, DagRun, real_run
from airflow_slotgroups.airflow_core.typing import AnyRow, AnySelect
from airflow_slotgroups.domain.lifecycle import Fate, Holder, fate_of
from airflow_slotgroups.domain.names import running_pool
from airflow_slotgroups.domain.order import order_minor
from airflow_slotgroups.domain.states import Admission, EndReason, Kind, RequestState
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import GRANTED, WAITING, built_once, live, same_task_instance
from airflow_slotgroups.store.requests import end_requests, lock_requests, mark_started
from airflow_slotgroups.store.use import executes_in, executes_unlimited, last_forced_request

FORCED = aliased(R)


@dataclass
class HolderFindings:
    """What a look at all holders of some groups found, by request id."""

    ended: dict[int, EndReason] = field(default_factory=dict)
    started: list[int] = field(default_factory=list)
    idle: dict[int, datetime] = field(default_factory=dict)
    """Grants that the scheduler has not used yet, with the moment of the grant."""


def look_at_holders(session: Session, names: Collection[str]) -> HolderFindings:
    """Compare every granted task request with its task instance; their number is bounded by the sizes."""
    findings = HolderFindings()
    for row in session.execute(holders_in(tuple(names))):
        sort_in(findings, row)
    return findings


@built_once
def holders_in(names: tuple[str, ...]) -> AnySelect:
    """Read granted task requests with their task instances."""
    return (
        select(
            R.id,
            R.try_number,
            R.was_queued,
            R.ti_scheduled_at,
            R.ti_queued_at,
            R.granted_at,
            TI.id.label("ti_id"),
            TI.state,
            TI.try_number.label("ti_try_number"),
            TI.next_method,
            TI.scheduled_dttm,
            TI.queued_dttm,
        )
        .outerjoin(TI, same_task_instance())
        .where(R.state == GRANTED, R.kind == Kind.TASK.value, R.pool.in_(names))
    )


def sort_in(findings: HolderFindings, row: AnyRow) -> None:
    """Add one holder to the findings."""
    fate, reason = fate_of(holder_of(row))
    if reason is not None:
        findings.ended[row.id] = reason
    elif fate is Fate.STARTED:
        findings.started.append(row.id)
    elif fate is Fate.IDLE:
        findings.idle[row.id] = row.granted_at


def holder_of(row: AnyRow) -> Holder:
    """Translate a row for the domain."""
    return Holder(
        try_number=row.try_number,
        was_queued=row.was_queued,
        scheduled_at=row.ti_scheduled_at,
        queued_at=row.ti_queued_at,
        ti_exists=row.ti_id is not None,
        ti_state=row.state,
        ti_try_number=row.ti_try_number,
        ti_next_method=row.next_method,
        ti_scheduled_at=row.scheduled_dttm,
        ti_queued_at=row.queued_dttm,
    )


def settle_holders(session: Session, findings: HolderFindings, now: datetime) -> set[int]:
    """Write down what the look found; returns the requests that were ended."""
    ended = end_requests(session, findings.ended, now)
    mark_started(session, findings.started)
    return ended


@dataclass(frozen=True)
class Stranger:
    """A task that executes in one of a group's pools without a granted request.

    :param live_id: a live request of that task instance: its own, still waiting, when the pool was opened by
        hand and it slipped in; else one that another try left behind.
    :param live_try: the try that request is for.
    """

    pool: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    slots: int
    priority: int | None
    scheduled_at: datetime | None
    queued_at: datetime | None
    live_id: int | None
    live_try: int | None

    @property
    def waiting_id(self) -> int | None:
        """Its own request, if there is one."""
        return self.live_id if self.live_try == self.try_number else None


def find_strangers(session: Session, names: Collection[str], *, deferred_too: bool = False) -> list[Stranger]:
    """Find the tasks that use slots without having asked (rule 1), runs of `dag.test()` excepted.

    :param deferred_too: deferred ones count in the pool that tasks name as well, as while it is adopted.
    """
    queries = uncounted_in(tuple(names), deferred_too), uncounted_forced_in(tuple(names))
    found = [Stranger(*row) for query in queries for row in session.execute(query)]
    known = {pool for name in names for pool in (name, running_pool(name))}
    # MySQL finds "Warehouse" for "warehouse"; to Airflow's scheduler they are two.
    return [stranger for stranger in found if stranger.pool in known]


@built_once
def uncounted_in(names: tuple[str, ...], deferred_too: bool) -> AnySelect:
    """Read those in the two pools of each group."""
    return uncounted(TI.pool).where(executes_in(names, deferred_too=deferred_too), real_run())


@built_once
def uncounted_forced_in(names: tuple[str, ...]) -> AnySelect:
    """Read those in the pool of forced starts."""
    forced = uncounted(FORCED.pool).join(FORCED, last_forced_request(FORCED))
    return forced.where(executes_unlimited(), FORCED.pool.in_(names))


def uncounted(pool: Any) -> AnySelect:
    """Read task instances whose present try has no granted request, with the live request that they have.

    :param pool: the pool or group that they belong to.
    """
    return (
        select(
            pool,
            TI.dag_id,
            TI.run_id,
            TI.task_id,
            TI.map_index,
            TI.try_number,
            TI.pool_slots,
            TI.priority_weight,
            TI.scheduled_dttm,
            TI.queued_dttm,
            R.id,
            R.try_number,
        )
        .select_from(TI)
        .join(DagRun, and_(DagRun.dag_id == TI.dag_id, DagRun.run_id == TI.run_id))
        .outerjoin(R, and_(same_task_instance(), live()))
        .where(or_(R.id.is_(None), R.state == WAITING, R.try_number != TI.try_number))
    )


def count_strangers(
    session: Session,
    strangers: Sequence[Stranger],
    names: Collection[str],
    admission: Admission,
    now: datetime,
) -> None:
    """Give them granted requests, so that they are seen, counted and released like all others."""
    group_of = {pool: name for name in names for pool in (name, running_pool(name))}
    for stranger in strangers:
        if stranger.waiting_id is not None:
            admit_waiting(session, stranger, admission, now)
    new = [s for s in strangers if s.waiting_id is None]
    # At most one live request per task instance (rule 11, a database constraint): first end, then insert.
    other = {s.live_id: EndReason.CLEARED for s in new if s.live_id is not None}
    ended = end_requests(session, other, now)
    new = [s for s in new if s.live_id is None or s.live_id in ended]
    if new:
        session.execute(insert(R), [stranger_row(s, group_of[s.pool], admission, now) for s in new])


def admit_waiting(session: Session, stranger: Stranger, admission: Admission, now: datetime) -> None:
    """Turn the waiting request of a task that runs already into a granted one, unless a listener has it locked."""
    if not lock_requests(session, [stranger.live_id] if stranger.live_id else []):
        return
    session.execute(
        update(R)
        .where(R.id == stranger.waiting_id, R.state == WAITING)
        .values(
            state=GRANTED,
            admission=admission.value,
            granted_at=now,
            not_before=null(),
            notice=null(),
            was_queued=True,
            ti_scheduled_at=stranger.scheduled_at,
            ti_queued_at=stranger.queued_at,
        )
        .execution_options(synchronize_session=False)
    )


def stranger_row(stranger: Stranger, group: str, admission: Admission, now: datetime) -> dict[str, Any]:
    """Make the row of a request that was never waiting."""
    arrived_at = stranger.scheduled_at or now
    priority = stranger.priority or 0
    return {
        "pool": group,
        "kind": Kind.TASK.value,
        "dag_id": stranger.dag_id,
        "run_id": stranger.run_id,
        "task_id": stranger.task_id,
        "map_index": stranger.map_index,
        "try_number": stranger.try_number,
        "slots": stranger.slots,
        "priority": priority,
        "order_major": -priority,
        "order_minor": order_minor(arrived_at),
        "state": RequestState.GRANTED.value,
        "live": True,
        "admission": admission.value,
        "suspended": False,
        "forced": False,
        "passes": 0,
        "enqueued_at": now,
        "arrived_at": arrived_at,
        "granted_at": now,
        "ti_scheduled_at": stranger.scheduled_at,
        "ti_queued_at": stranger.queued_at,
        "was_queued": True,
    }

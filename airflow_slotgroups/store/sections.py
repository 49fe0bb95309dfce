"""Sections: acquires that wait, and the holds that they become (DESIGN rule 12)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, not_, null, or_, select, update
from sqlalchemy.orm import Session, aliased

from airflow_slotgroups.airflow_core.dags import release_of, tasks_between
from airflow_slotgroups.airflow_core.events import succeed
from airflow_slotgroups.airflow_core.tables import (
    DEFERRED,
    EXECUTING,
    TI,
    UNFINISHED,
    DagRun,
    Trigger,
    is_acquire,
    real_run,
)
from airflow_slotgroups.airflow_core.typing import AnyRow, AnySelect
from airflow_slotgroups.domain.lifecycle import Hold, fate_of_hold
from airflow_slotgroups.domain.names import RELEASE_OPERATOR, SLOT_TRIGGER_PATH
from airflow_slotgroups.domain.snapshot import RunKey
from airflow_slotgroups.domain.states import Admission, EndReason
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.discovery import Arrival
from airflow_slotgroups.store.keys import GRANTED, SECTION, WAITING, built_once, same_task_instance
from airflow_slotgroups.store.requests import lock_requests, put_off

RELEASE = aliased(TI)
OTHER = aliased(TI)


def waits_for_slots() -> ColumnElement[bool]:
    """The task instance is an acquire that still waits."""
    return and_(TI.state == DEFERRED, is_acquire())


def find_ended_holds(session: Session, names: Collection[str]) -> dict[int, EndReason]:
    """Find the holds whose section is over; their number is bounded by the sizes."""
    # Most of the time there are none, and all that tells whether one is over is dear to ask for.
    if session.execute(any_hold(tuple(names))).first() is None:
        return {}
    rows = session.execute(holds_in(tuple(names)))
    fates = {row.id: fate_of_hold(hold_of(session, row)) for row in rows}
    return {request_id: reason for request_id, reason in fates.items() if reason is not None}


@built_once
def any_hold(names: tuple[str, ...]) -> AnySelect:
    """Read whether a section holds slots."""
    return select(R.id).where(is_hold(names)).limit(1)


def is_hold(names: Collection[str]) -> ColumnElement[bool]:
    """The request is a section's, and holds slots of one of the groups."""
    return and_(R.state == GRANTED, R.kind == SECTION, R.pool.in_(names))


@built_once
def holds_in(names: tuple[str, ...]) -> AnySelect:
    """Read holds with all that tells whether their section is over."""
    return (
        select(
            R.id,
            DagRun.state.label("run_state"),
            TI.id.label("acquire_id"),
            TI.state.label("acquire_state"),
            and_(TI.pool != R.pool, TI.state == DEFERRED).label("acquire_moved"),
            RELEASE.state.label("release_state"),
            has_unfinished_tasks().label("goes_on"),
            has_executing_tasks().label("executes"),
            R.dag_id,
            R.run_id,
            R.task_id,
            R.map_index,
        )
        .outerjoin(DagRun, and_(DagRun.dag_id == R.dag_id, DagRun.run_id == R.run_id))
        .outerjoin(TI, same_task_instance())
        .outerjoin(RELEASE, is_release_of_hold())
        .where(is_hold(names))
    )


def is_release_of_hold() -> ColumnElement[bool]:
    """The task instance that ends the hold: of the same run and map index, named when it was granted."""
    return and_(
        RELEASE.dag_id == R.dag_id,
        RELEASE.run_id == R.run_id,
        RELEASE.task_id == R.release_task_id,
        RELEASE.map_index == R.map_index,
    )


def has_unfinished_tasks() -> ColumnElement[bool]:
    """Some task of the run, other than releases, is unfinished.

    When none is, a teardown may never run: in a paused DAG whose run was marked failed it does not.
    """
    return exists().where(
        OTHER.dag_id == R.dag_id,
        OTHER.run_id == R.run_id,
        or_(OTHER.state.is_(None), OTHER.state.in_(UNFINISHED)),
        or_(OTHER.operator.is_(None), OTHER.operator != RELEASE_OPERATOR),
    )


def has_executing_tasks() -> ColumnElement[bool]:
    """Some task of the run executes."""
    return exists().where(OTHER.dag_id == R.dag_id, OTHER.run_id == R.run_id, OTHER.state.in_(EXECUTING))


def hold_of(session: Session, row: AnyRow) -> Hold:
    """Translate a row for the domain."""
    renamed = row.release_state == "removed"
    return Hold(
        run_state=row.run_state,
        acquire_exists=row.acquire_id is not None,
        acquire_state=row.acquire_state,
        acquire_moved=bool(row.acquire_moved),
        release_state=state_of_present_release(session, row) if renamed else row.release_state,
        goes_on=bool(row.goes_on),
        executes=bool(row.executes),
    )


def state_of_present_release(session: Session, row: AnyRow) -> str | None:
    """Read the state of the release that the DAG has now; an edit has removed the one that was to end the hold."""
    release = release_of(session, RunKey(row.dag_id, row.run_id), row.task_id)
    return session.scalar(
        select(TI.state).where(
            TI.dag_id == row.dag_id,
            TI.run_id == row.run_id,
            TI.task_id == release,
            TI.map_index == row.map_index,
        )
    )


def go_on(session: Session, arrivals: Sequence[Arrival], now: datetime) -> None:
    """Let new tries of acquires through to their own holds: clearing an inner task clears its acquire too.

    One that can not end keeps its hold, says why, and is tried again after a while.
    """
    holds = lock_requests(session, [arrival.older_id for arrival in arrivals if arrival.older_id])
    of_hold = {arrival.older_id: arrival for arrival in arrivals}
    ended = succeed(session, [of_hold[hold].ti_id for hold in holds], waits_for_slots())
    for hold in holds:
        arrival = of_hold[hold]
        if arrival.ti_id in ended.done:
            hold_on(session, hold, arrival)
        elif why := ended.failed.get(arrival.ti_id):
            put_off(session, hold, f"it has its slots, and could not be let in: {why}", now)


def hold_on(session: Session, hold: int, arrival: Arrival) -> None:
    """Let a hold be that of the new try; its release is read anew, since the DAG may have been edited."""
    release = release_of(session, RunKey(arrival.dag_id, arrival.run_id), arrival.task_id)
    session.execute(
        update(R)
        .where(R.id == hold, R.state == GRANTED)
        .values(try_number=arrival.try_number, release_task_id=release, not_before=null(), notice=null())
        .execution_options(synchronize_session=False)
    )


def waits_beside_hold(session: Session, hold: R) -> bool:
    """Tell whether a new try of the acquire waits, though it has its hold: it could not go on with it."""
    query = select(TI.id).where(
        TI.dag_id == hold.dag_id,
        TI.run_id == hold.run_id,
        TI.task_id == hold.task_id,
        TI.map_index == hold.map_index,
        TI.state == DEFERRED,
    )
    return session.scalar(query) is not None


def find_test_acquires(session: Session) -> list[Any]:
    """Find acquires of runs of `dag.test()` that a live scheduler has deferred: none of ours (section 3)."""
    return list(session.scalars(test_acquires()))


@built_once
def test_acquires() -> AnySelect:
    """Read acquires of test runs."""
    return (
        select(TI.id)
        .join(Trigger, and_(Trigger.id == TI.trigger_id, Trigger.classpath == SLOT_TRIGGER_PATH))
        .join(DagRun, and_(DagRun.dag_id == TI.dag_id, DagRun.run_id == TI.run_id))
        .where(TI.state == DEFERRED, not_(real_run()))
        .limit(100)
    )


def pass_through(session: Session, ids: Collection[Any]) -> set[Any]:
    """End acquires as success, without a hold.

    :return: those that somebody has locked.
    """
    ended = succeed(session, ids, waits_for_slots())
    return set(ids) - ended.done - ended.failed.keys()


def find_marked(session: Session, names: Collection[str]) -> list[int]:
    """Find waiting acquires that somebody has marked success by hand: their sections run, so they hold."""
    query = (
        select(R.id)
        .join(TI, same_task_instance())
        .where(R.state == WAITING, R.kind == SECTION, R.pool.in_(names))
        .where(TI.state == "success", TI.try_number == R.try_number)
    )
    return list(session.scalars(query))


def hold_marked(session: Session, ids: Collection[int], now: datetime) -> None:
    """Turn them into holds, shown as forced, each with the release that ends it."""
    for request in session.scalars(select(R).where(R.id.in_(lock_requests(session, list(ids))))):
        request.state = GRANTED
        request.granted_at = now
        request.admission = Admission.FORCED.value
        request.was_queued = True
        request.not_before = request.notice = None
        request.release_task_id = release_of(session, RunKey(request.dag_id, request.run_id), request.task_id)
    session.flush()


def waiting_acquires(session: Session, pool: str) -> list[Any]:
    """Find the task instances of acquires that wait for a group, those not enqueued yet too."""
    return list(session.scalars(select(TI.id).where(TI.pool == pool, waits_for_slots())))


def orphaned_acquires(session: Session, groups: Collection[str]) -> list[AnyRow]:
    """Find acquires that wait for the slots of a pool that is no group: nobody lets them in (rule 14)."""
    query = (
        select(TI.dag_id, TI.run_id, TI.task_id, TI.map_index, TI.pool)
        .join(Trigger, and_(Trigger.id == TI.trigger_id, Trigger.classpath == SLOT_TRIGGER_PATH))
        .where(TI.state == DEFERRED, TI.pool.not_in(groups))
        .limit(100)
    )
    return list(session.execute(query).all())


def section_tasks(session: Session, hold: R) -> list[str]:
    """Name the tasks that execute now between a hold's acquire and its release."""
    inside = tasks_between(session, RunKey(hold.dag_id, hold.run_id), hold.task_id, hold.release_task_id)
    query = (
        select(TI.task_id)
        .where(TI.dag_id == hold.dag_id, TI.run_id == hold.run_id, TI.state.in_(EXECUTING))
        .order_by(TI.task_id)
    )
    if hold.map_index >= 0:
        query = query.where(TI.map_index == hold.map_index)
    return [task_id for task_id in session.scalars(query) if task_id in inside]

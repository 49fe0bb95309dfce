"""Finding what waits in closed pools, and enqueuing it (DESIGN section 2, step 2)."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    LargeBinary,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.dags import NO_LIMITS, TaskLimitReader
from airflow_slotgroups.airflow_core.tables import DEFERRED, SCHEDULED, TI, DagRun, is_acquire, real_run
from airflow_slotgroups.airflow_core.typing import AnySelect
from airflow_slotgroups.domain.names import EXECUTOR_CONFIG_KEY, LONGEST_WAIT_DAYS, MAX_WAIT_KEY
from airflow_slotgroups.domain.order import order_major, order_minor
from airflow_slotgroups.domain.run_priority import RunPriority, run_priority
from airflow_slotgroups.domain.snapshot import RunKey
from airflow_slotgroups.domain.states import EndReason, RequestState
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.groups import StoredGroup
from airflow_slotgroups.store.keys import GRANTED, SECTION, TASK, built_once, live, same_task_instance
from airflow_slotgroups.store.requests import end_requests

log = logging.getLogger(__name__)

AT_MOST = 1000
"""Tasks enqueued by one cycle (DESIGN section 2); the next one goes on."""


LONGEST_WAIT = timedelta(days=LONGEST_WAIT_DAYS)


class Arrival(NamedTuple):
    """A waiting task of a closed pool that has no live request of its try.

    :param conf: of its run.
    :param executor_config: as it is stored; read only if it carries something of ours.
    :param older_id: the live request of another try, which that try left behind.
    :param older_state: its state; a granted one of a section is a hold that goes on, if it is of
    :param older_pool: the same group, and has
    :param older_slots: as many slots.
    """

    ti_id: Any
    kind: str
    pool: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    slots: int
    priority: int | None
    arrived_at: datetime | None
    conf: Mapping[str, Any] | None
    executor_config: bytes | None
    older_id: int | None = None
    older_state: str | None = None
    older_pool: str | None = None
    older_slots: int | None = None

    @property
    def task(self) -> tuple[RunKey, str]:
        """The task within its run."""
        return RunKey(self.dag_id, self.run_id), self.task_id

    def goes_on(self) -> bool:
        """Tell whether this is a new try of an acquire that finds its own hold (rule 12)."""
        is_same = (self.older_pool, self.older_slots) == (self.pool, self.slots)
        return self.kind == SECTION and self.older_state == GRANTED and is_same


def find_arrivals(
    session: Session, names: Collection[str], now: datetime, limit: int = AT_MOST
) -> list[Arrival]:
    """Find the tasks and acquires to enqueue, first come first.

    An acquire that could not go on with its own hold a moment ago is left out for a while.

    Of one moment, those of the older run and the lower map index come first, as in Airflow's own order.
    """
    query = arrivals_in(tuple(names)).limit(limit)
    found = [Arrival(*row) for row in session.execute(query, {"now": now})]
    # MySQL finds "Warehouse" for "warehouse"; to Airflow's scheduler they are two.
    return [arrival for arrival in found if arrival.pool in names]


def has_arrivals(session: Session, names: Collection[str], now: datetime) -> bool:
    """Tell whether there are any."""
    return session.execute(any_arrival(tuple(names)), {"now": now}).first() is not None


@built_once
def any_arrival(names: tuple[str, ...]) -> AnySelect:
    """Read their ids: to find the first alone, a database may read whatever ever waited in these pools."""
    return among_arrivals(select(TI.id), names).limit(AT_MOST)


@built_once
def arrivals_in(names: tuple[str, ...]) -> AnySelect:
    """Read them all, each with the request that another try left behind."""
    arrived_at = case((TI.state == DEFERRED, TI.start_date), else_=TI.scheduled_dttm)
    query: AnySelect = select(
        TI.id,
        case((TI.state == DEFERRED, SECTION), else_=literal(TASK)),
        TI.pool,
        TI.dag_id,
        TI.run_id,
        TI.task_id,
        TI.map_index,
        TI.try_number,
        TI.pool_slots,
        TI.priority_weight,
        type_coerce(arrived_at, TI.scheduled_dttm.type),
        DagRun.conf,
        # As bytes: unpickling it may need packages that only workers have.
        type_coerce(TI.executor_config, LargeBinary),
        R.id,
        R.state,
        R.pool,
        R.slots,
    )
    in_order = func.coalesce(arrived_at, TI.scheduled_dttm), DagRun.logical_date, TI.map_index
    return among_arrivals(query, names).order_by(*in_order)


def among_arrivals(query: AnySelect, names: Collection[str]) -> AnySelect:
    """Let a query read what waits without a live request of its try."""
    return (
        query.join(DagRun, and_(DagRun.dag_id == TI.dag_id, DagRun.run_id == TI.run_id))
        .outerjoin(R, and_(same_task_instance(), live()))
        .where(TI.pool.in_(names), or_(TI.state == SCHEDULED, and_(TI.state == DEFERRED, is_acquire())))
        .where(or_(R.id.is_(None), R.try_number != TI.try_number), real_run())
        .where(or_(R.id.is_(None), R.not_before.is_(None), R.not_before <= bindparam("now"), not_(goes_on())))
    )


def goes_on() -> ColumnElement[bool]:
    """What `Arrival.goes_on` tells, as a condition of SQL."""
    return and_(R.state == GRANTED, R.kind == SECTION, R.pool == TI.pool, R.slots == TI.pool_slots)


def enqueue(
    session: Session,
    groups: Mapping[str, StoredGroup],
    arrivals: Sequence[Arrival],
    limits: TaskLimitReader,
    now: datetime,
    *,
    allow_run_priority: bool = False,
) -> list[str]:
    """Give each arrival a waiting request, ending whatever an older try of it left behind.

    :param allow_run_priority: let `conf["slot_priority"]` of a run override the priority of its tasks.
    :return: the group of each request that was made.
    """
    # At most one live request per task instance (rule 11, a database constraint): first end, then insert.
    older = {a.older_id: EndReason.CLEARED for a in arrivals if a.older_id is not None}
    ended = end_requests(session, older, now)
    arrivals = [a for a in arrivals if a.older_id is None or a.older_id in ended]
    if not arrivals:
        return []
    by_task = limits.read(session, {arrival.task for arrival in arrivals if arrival.kind == TASK})
    rows = []
    for arrival in arrivals:
        own = run_priority(arrival.conf) if allow_run_priority else RunPriority()
        row = request_row(arrival, own, groups[arrival.pool].row.ageing_seconds, now)
        limited = by_task.get(arrival.task, NO_LIMITS)
        row["max_active_tis_per_dag"], row["max_active_tis_per_dagrun"] = limited
        rows.append(row)
        if row["notice"]:
            log.warning("%s.%s of '%s': %s", row["dag_id"], row["task_id"], row["run_id"], row["notice"])
    session.execute(insert(R), rows)
    return [row["pool"] for row in rows]


def request_row(arrival: Arrival, own: RunPriority, ageing_seconds: int, now: datetime) -> dict[str, Any]:
    """Make the row of a waiting request.

    :param own: the priority that the run asks for.
    """
    arrived_at = arrival.arrived_at or now
    priority = (arrival.priority or 0) if own.priority is None else own.priority
    max_wait, unreadable = max_wait_of(arrival)
    return {
        "pool": arrival.pool,
        "kind": arrival.kind,
        "dag_id": arrival.dag_id,
        "run_id": arrival.run_id,
        "task_id": arrival.task_id,
        "map_index": arrival.map_index,
        "try_number": arrival.try_number,
        "slots": arrival.slots,
        "priority": priority,
        "order_major": order_major(priority, arrived_at, ageing_seconds),
        "order_minor": order_minor(arrived_at),
        "state": RequestState.WAITING.value,
        "live": True,
        "suspended": False,
        "forced": False,
        "passes": 0,
        "was_queued": False,
        "enqueued_at": now,
        "arrived_at": arrived_at,
        "expires_at": None if max_wait is None else now + max_wait,
        "notice": "; ".join(filter(None, (own.notice, unreadable))) or None,
    }


def max_wait_of(arrival: Arrival) -> tuple[timedelta | None, str | None]:
    """Read the max_wait that `slot_args` put into executor_config; a broken one is none, and said."""
    stored = arrival.executor_config
    if not stored or MAX_WAIT_KEY.encode() not in stored:
        return None, None
    try:
        wait = timedelta(seconds=float(pickle.loads(stored)[EXECUTOR_CONFIG_KEY][MAX_WAIT_KEY]))
        if wait < timedelta(0):
            raise ValueError(f"{wait} is negative")
        return min(wait, LONGEST_WAIT), None
    except Exception as error:
        return None, f"its max_wait can not be read, and it waits for ever: {error!r}"

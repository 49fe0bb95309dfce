"""The queue of a group: waiters with all that decides on them, read for the planner."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    CompoundSelect,
    ScalarSelect,
    Subquery,
    and_,
    bindparam,
    case,
    cast,
    false,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.dags import multi_team
from airflow_slotgroups.airflow_core.sessions import joins_as_written
from airflow_slotgroups.airflow_core.tables import (
    COUNTED_FOR_RUN,
    COUNTED_FOR_TASK,
    DEFERRED,
    RUNNING_RUN,
    SCHEDULED,
    TI,
    DagModel,
    DagRun,
    Pool,
    bundle_team,
)
from airflow_slotgroups.airflow_core.typing import AnyRow, AnySelect
from airflow_slotgroups.domain.order import FORCED_MAJOR
from airflow_slotgroups.domain.planner import Plan
from airflow_slotgroups.domain.snapshot import UNLIMITED, Group, Limit, Waiter
from airflow_slotgroups.domain.states import Kind, Mode
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import (
    GRANTED,
    SECTION,
    WAITING,
    built_once,
    same_live_try,
    same_task_instance,
)


class Place(NamedTuple):
    """A place in the order of a queue."""

    order_major: int
    order_minor: int
    id: int


@dataclass(frozen=True)
class QueuedTask:
    """A waiter together with the rows behind it.

    :param ti_id: id of its task instance at this moment, None when that is gone.
    """

    pool: str
    waiter: Waiter
    place: Place
    priority: int
    try_number: int
    arrived_at: datetime
    ti_id: Any
    ti_scheduled_at: datetime | None
    ti_queued_at: datetime | None


@dataclass(frozen=True)
class ActiveCounts:
    """How many task instances Airflow's limits count, grouped as each limit does.

    Those that are granted and not queued yet are counted too, else two cycles in a row would let in more
    than the limit allows (rule 6).
    """

    by_run: Subquery
    by_task: Subquery
    by_task_run: Subquery


def waiting_in(session: Session, pool: str, limit: int, offset: int = 0) -> list[QueuedTask]:
    """Read the queue as people see it: every waiter, startable or not, in order."""
    query = (
        queued_tasks(multi_team())
        .where(R.state == WAITING, R.pool == pool)
        .order_by(R.order_major, R.order_minor, R.id)
        .limit(limit)
        .offset(offset)
    )
    return [queued_task(row) for row in session.execute(query)]


def wider_than(session: Session, pool: str, slots: int) -> tuple[int, int]:
    """Count the waiters that need more slots than so many, and return what the widest needs."""
    query = select(func.count(), func.max(R.slots)).where(R.state == WAITING, R.pool == pool, R.slots > slots)
    number, widest = session.execute(query).one()
    return number, widest or 0


def candidates(
    session: Session,
    group: Group,
    now: datetime,
    limit: int,
    so_far: Plan | None = None,
    after: Place | None = None,
    without: Collection[int] = (),
) -> list[QueuedTask]:
    """Read the next waiters that could start, leaving the others out in SQL (rule 6).

    :param so_far: the plan of the waiters read before: what it has starved is left out, and behind a head
        that does not fit whatever is wider than the free slots.
    :param after: the last place read before.
    :param without: requests to leave out, since they could not be let in a moment ago.
    """
    query = startable_tasks(multi_team()).where(R.state == WAITING, R.pool == group.pool).limit(limit)
    if group.size != UNLIMITED and group.mode is not Mode.BYPASS:
        # Wider than the group: `planner.why_too_wide`.
        query = query.where(or_(R.forced, R.slots <= group.size))
    if without:
        query = query.where(R.id.not_in(without))
    if after is not None:
        query = query.where(tuple_(R.order_major, R.order_minor, R.id) > tuple_(*map(literal, after)))
    if so_far is not None:
        query = query.where(*not_starved(so_far))
        if so_far.head is not None and so_far.free is not None:
            query = query.where(R.slots <= so_far.free)
    joins_as_written(session)
    return [queued_task(row) for row in session.execute(query, {"now": now})]


def granted_tasks(session: Session, ids: Collection[int]) -> list[QueuedTask]:
    """Read granted requests as if they still waited, their own grant not counted (rule 6)."""
    query = queued_tasks(multi_team()).where(R.id.in_(ids), R.state == GRANTED)
    return [queued_task(row, own=1) for row in session.execute(query)]


class LiveCount(NamedTuple):
    """Live requests of a group."""

    waiting: int
    holding: int


def count_live(session: Session, pool: str) -> LiveCount:
    """Count who waits and who holds: for people, never in a cycle."""
    query = (
        select(R.state, func.count()).where(R.pool == pool, R.state.in_((WAITING, GRANTED))).group_by(R.state)
    )
    counts = {state: number for state, number in session.execute(query)}  # noqa: C416 - rows, not pairs
    return LiveCount(counts.get(WAITING, 0), counts.get(GRANTED, 0))


def reorder(session: Session, pool: str, ageing_seconds: int) -> None:
    """Give all requests of a group the places that another ageing gives them, in one statement.

    Holders too: one whose grant comes to nothing goes back to its place among the others (rule 6).
    """
    # In 64 bits: a priority of a million and an hour of ageing do not fit into 32.
    priority = cast(R.priority, BigInteger)
    by_age = R.order_minor - priority * (ageing_seconds * 1000) if ageing_seconds else -priority
    session.execute(
        update(R)
        .where(R.state.in_((WAITING, GRANTED)), R.pool == pool, R.order_major != FORCED_MAJOR)
        .values(order_major=by_age)
        .execution_options(synchronize_session=False)
    )


GROUPS_AT_ONCE = 200
"""In one statement; SQLite takes 500 terms of a compound SELECT."""


def heads_of_queues(session: Session, names: Collection[str]) -> dict[str, int]:
    """Return, for each group in which somebody waits, the first sort key of the first waiter.

    One step into the index a group; the queues themselves are not read.
    """
    ordered, found = sorted(names), {}
    for start in range(0, len(ordered), GROUPS_AT_ONCE):
        for row in session.execute(firsts_of(tuple(ordered[start : start + GROUPS_AT_ONCE]))):
            if row.first is not None:
                found[row.pool] = row.first
    return found


@built_once
def firsts_of(names: tuple[str, ...]) -> CompoundSelect[Any]:
    """Read the first sort key of each group."""
    return union_all(*(select(literal(name).label("pool"), first_in(name).label("first")) for name in names))


def first_in(name: str) -> ScalarSelect[int]:
    """The first sort key of the first waiter of a group."""
    return (
        select(R.order_major)
        .where(R.state == WAITING, R.pool == name)
        .order_by(R.order_major)
        .limit(1)
        .scalar_subquery()
    )


@built_once
def queued_tasks(teams: bool) -> AnySelect:
    """Requests joined with everything that decides whether they may start.

    :param teams: pools and DAGs belong to teams (multi-team mode).
    """
    return joined_with(active_counts(), teams)


@built_once
def startable_tasks(teams: bool) -> AnySelect:
    """Those of them that could start at the moment `now` in a group with room, in the order of the queue."""
    counts = active_counts()
    could = joined_with(counts, teams).where(startable(counts, teams))
    return could.order_by(R.order_major, R.order_minor, R.id)


def joined_with(counts: ActiveCounts, teams: bool) -> AnySelect:
    """Join requests with their DAGs, runs, task instances and counts.

    In this order, since PostgreSQL joins as it is written (`joins_as_written`): a paused DAG's waiters are left
    out before their task instances are read.
    """
    query: AnySelect = (
        select(
            R.id,
            R.pool,
            R.kind,
            R.dag_id,
            R.run_id,
            R.task_id,
            R.map_index,
            R.try_number,
            R.slots,
            R.priority,
            R.suspended,
            R.forced,
            R.passes,
            R.not_before,
            R.notice,
            R.arrived_at,
            R.order_major,
            R.order_minor,
            R.max_active_tis_per_dag,
            R.max_active_tis_per_dagrun,
            TI.id.label("ti_id"),
            TI.scheduled_dttm,
            TI.queued_dttm,
            still_waits().label("still_waits"),
            DagModel.dag_id.label("known_dag"),
            DagModel.is_paused,
            DagModel.max_active_tasks,
            DagRun.state.label("run_state"),
            func.coalesce(counts.by_run.c.active, 0).label("run_active"),
            func.coalesce(counts.by_task.c.active, 0).label("task_active"),
            func.coalesce(counts.by_task_run.c.active, 0).label("task_run_active"),
            *team_columns(teams),
        )
        .select_from(R)
        .outerjoin(DagModel, DagModel.dag_id == R.dag_id)
        .outerjoin(DagRun, and_(DagRun.dag_id == R.dag_id, DagRun.run_id == R.run_id))
        .outerjoin(TI, same_task_instance())
        .outerjoin(counts.by_run, same(counts.by_run, "dag_id", "run_id"))
        .outerjoin(counts.by_task, same(counts.by_task, "dag_id", "task_id"))
        .outerjoin(counts.by_task_run, same(counts.by_task_run, "dag_id", "run_id", "task_id"))
    )
    if teams:
        query = query.outerjoin(Pool, Pool.pool == R.pool).outerjoin(
            bundle_team, bundle_team.c.dag_bundle_name == DagModel.bundle_name
        )
    return query


def team_columns(teams: bool) -> list[ColumnElement[Any]]:
    """The teams of pool and DAG, which mean something in multi-team mode alone."""
    if not teams:
        return [null().label("pool_team"), null().label("dag_team")]
    return [Pool.team_name.label("pool_team"), bundle_team.c.team_name.label("dag_team")]


def same(counted: Subquery, *columns: str) -> ColumnElement[bool]:
    """The request belongs to that row of counts."""
    return and_(*(getattr(R, column) == counted.c[column] for column in columns))


def still_waits() -> ColumnElement[bool]:
    """The task instance is still that try, waiting in the closed pool: scheduled, or an acquire deferred."""
    waits = or_(and_(TI.state == SCHEDULED, R.kind != SECTION), and_(TI.state == DEFERRED, R.kind == SECTION))
    return and_(waits, TI.pool == R.pool, TI.try_number == R.try_number)


def active_counts() -> ActiveCounts:
    """Count what Airflow's limits count, from one reading of the active task instances."""
    active = active_task_instances()
    return ActiveCounts(
        by_run=counted(active, func.sum(active.c.executes), "dag_id", "run_id"),
        by_task=counted(active, func.count(), "dag_id", "task_id"),
        by_task_run=counted(active, func.count(), "dag_id", "run_id", "task_id"),
    )


def active_task_instances() -> CTE:
    """The task instances that Airflow counts, and those that it will count as soon as it sees our grant."""
    executes = case((TI.state.in_(COUNTED_FOR_RUN), 1), else_=0).label("executes")
    seen = select(TI.dag_id, TI.run_id, TI.task_id, executes).where(TI.state.in_(COUNTED_FOR_TASK))
    let_in = (
        select(TI.dag_id, TI.run_id, TI.task_id, literal(1))
        .select_from(R)
        .join(TI, same_live_try())
        .where(R.state == GRANTED, R.kind != SECTION, TI.state == SCHEDULED)
    )
    return union_all(seen, let_in).cte("active")


def counted(active: CTE, number: ColumnElement[int], *columns: str) -> Subquery:
    """Group the active ones by some of their columns."""
    keys = [active.c[column] for column in columns]
    return select(*keys, number.label("active")).group_by(*keys).subquery()


def startable(counts: ActiveCounts, teams: bool) -> ColumnElement[bool]:
    """What `planner.why_not_startable` decides, as a condition of SQL.

    It spares reading waiters that can not start; the planner judges the rest again. A test compares the two.
    """
    conditions = [
        still_waits(),
        R.suspended == false(),
        or_(R.not_before.is_(None), R.not_before <= bindparam("now")),
        DagModel.is_paused == false(),
        DagRun.state == RUNNING_RUN,
        or_(R.kind == SECTION, below_limits(counts)),
    ]
    if teams:
        conditions.append(or_(Pool.team_name.is_(None), Pool.team_name == bundle_team.c.team_name))
    return and_(*conditions)


def below_limits(counts: ActiveCounts) -> ColumnElement[bool]:
    """None of Airflow's own limits is reached."""
    return and_(
        func.coalesce(counts.by_run.c.active, 0) < DagModel.max_active_tasks,
        below(R.max_active_tis_per_dag, counts.by_task),
        below(R.max_active_tis_per_dagrun, counts.by_task_run),
    )


def below(most: Any, active: Subquery) -> ColumnElement[bool]:
    """A limit that may be none is not reached."""
    return or_(most.is_(None), func.coalesce(active.c.active, 0) < most)


def not_starved(so_far: Plan) -> list[ColumnElement[bool]]:
    """Leave out what the plan itself has brought to a limit."""
    conditions: list[ColumnElement[bool]] = [
        not_(and_(R.dag_id == run.dag_id, R.run_id == run.run_id)) for run in so_far.starved_runs
    ]
    conditions += [
        not_(and_(R.dag_id == task.dag_id, R.task_id == task.task_id)) for task in so_far.starved_tasks
    ]
    conditions += [
        not_(and_(R.dag_id == run.dag_id, R.run_id == run.run_id, R.task_id == task_id))
        for run, task_id in so_far.starved_task_runs
    ]
    return conditions


def queued_task(row: AnyRow, own: int = 0) -> QueuedTask:
    """Translate a row for the planner.

    :param own: how much of the counts is the request's own grant.
    """
    return QueuedTask(
        pool=row.pool,
        waiter=Waiter(
            id=row.id,
            kind=Kind(row.kind),
            dag_id=row.dag_id,
            run_id=row.run_id,
            task_id=row.task_id,
            map_index=row.map_index,
            slots=row.slots,
            suspended=row.suspended,
            forced=row.forced,
            passes=row.passes,
            not_before=row.not_before,
            notice=row.notice,
            scheduled=bool(row.still_waits) or own > 0,
            dag_exists=row.known_dag is not None,
            dag_paused=bool(row.is_paused),
            run_state=row.run_state,
            run_limit=Limit(int(row.run_active) - own, row.max_active_tasks),
            task_limit=Limit(int(row.task_active) - own, row.max_active_tis_per_dag),
            task_run_limit=Limit(int(row.task_run_active) - own, row.max_active_tis_per_dagrun),
            pool_team=row.pool_team,
            dag_team=row.dag_team,
        ),
        place=Place(row.order_major, row.order_minor, row.id),
        priority=row.priority,
        try_number=row.try_number,
        arrived_at=row.arrived_at,
        ti_id=row.ti_id,
        ti_scheduled_at=row.scheduled_dttm,
        ti_queued_at=row.queued_dttm,
    )

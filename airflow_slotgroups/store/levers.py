"""What people do to waiters: force, prioritise, suspend (issue 4). All under the group's lock."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import exists, func, select, update
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.pools import PoolRow, put_pool, read_pools, write_pools
from airflow_slotgroups.airflow_core.tables import TI, Pool
from airflow_slotgroups.airflow_core.typing import AnySelect
from airflow_slotgroups.domain.errors import BusyError
from airflow_slotgroups.domain.names import UNLIMITED_POOL
from airflow_slotgroups.domain.order import FORCED_MAJOR, order_major
from airflow_slotgroups.domain.snapshot import UNLIMITED
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.models import SlotGroup
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import GRANTED, WAITING, built_once, live, same_live_try

COLUMNS: dict[str, Any] = {
    "dag_id": R.dag_id,
    "task_id": R.task_id,
    "run_id": R.run_id,
    "map_index": R.map_index,
    "request_id": R.id,
}


def find_requests(session: Session, pool: str, which: Which) -> list[R]:
    """Read the requests of a group that are meant, in the order of the queue; an ended one by its number alone."""
    query = select(R).where(
        R.pool == pool, *(COLUMNS[name] == value for name, value in which.given().items())
    )
    if which.request_id is None:
        query = query.where(live())
    return list(session.scalars(query.order_by(R.order_major, R.order_minor, R.id)))


def force(session: Session, requests: Sequence[R]) -> None:
    """Put waiters before all others, past capacity and pause; the next cycle lets them in.

    One that was suspended is so no longer: the later word of a person counts.
    """
    if UNLIMITED_POOL not in read_pools(session, [UNLIMITED_POOL]):
        put_pool(session, unlimited_pool(), exists=False)
    for request in requests:
        request.forced = True
        request.suspended = False
        request.order_major = FORCED_MAJOR


def unlimited_pool() -> PoolRow:
    """The pool in which forced tasks run."""
    description = "Tasks that were started by force; managed by slot groups, name it in no DAG"
    return PoolRow(UNLIMITED_POOL, UNLIMITED, include_deferred=True, description=description)


def unlimited_is_wrong(session: Session, names: Collection[str]) -> bool:
    """Tell whether somebody deleted or edited the unlimited pool while tasks that were let in stand there."""
    return session.scalars(stand_in_wrong_unlimited(tuple(names))).first() is not None


@built_once
def stand_in_wrong_unlimited(names: tuple[str, ...]) -> AnySelect:
    """Read a request that was let in to the unlimited pool while that is not what it should be."""
    right = exists().where(Pool.pool == UNLIMITED_POOL, Pool.slots == UNLIMITED)
    return (
        select(R.id)
        .join(TI, same_live_try())
        .where(R.state == GRANTED, R.pool.in_(names), TI.pool == UNLIMITED_POOL, ~right)
        .limit(1)
    )


def mend_unlimited(session: Session) -> None:
    """Make the unlimited pool what it should be; when somebody holds its row, a later cycle does it."""
    try:
        with session.begin_nested():
            write_pools(session, read_pools(session, [UNLIMITED_POOL]), [unlimited_pool()])
    except BusyError:
        return


def prioritize(group: SlotGroup, requests: Sequence[R], priority: int) -> None:
    """Give waiters another priority; their arrival stays."""
    for request in requests:
        request.priority = priority
        request.order_major = order_major(
            priority, request.arrived_at, group.ageing_seconds, forced=request.forced
        )


def first_place(session: Session, pool: str, besides: Sequence[int]) -> int | None:
    """Return the first sort key of the first waiter that is neither forced nor one of those given."""
    query = select(func.min(R.order_major)).where(
        R.state == WAITING, R.pool == pool, R.order_major != FORCED_MAJOR, R.id.not_in(besides)
    )
    return session.scalar(query)


def suspend(requests: Sequence[R], suspended: bool) -> None:
    """Pass waiters over, or no longer; their places stay."""
    for request in requests:
        request.suspended = suspended


def take_comment(session: Session, requests: Sequence[R], comment: str | None) -> None:
    """Keep what a person wrote, on many requests in one statement."""
    if comment is not None:
        session.execute(
            update(R)
            .where(R.id.in_([request.id for request in requests]))
            .values(comment=comment)
            .execution_options(synchronize_session=False)
        )

"""The answer to "why does my task not run?", for any task instance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.clock import utcnow
from airflow_slotgroups.airflow_core.facts import find_task_instance, read_facts
from airflow_slotgroups.domain.discretion import MaySee, everything, listed
from airflow_slotgroups.domain.explain import Explanation, GroupFacts, PastFacts, explain
from airflow_slotgroups.domain.names import RUNNING_SUFFIX
from airflow_slotgroups.domain.snapshot import TaskKey
from airflow_slotgroups.domain.states import RequestState
from airflow_slotgroups.models import SlotGroup
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.services.queue import LOOK_AT, QueueEntry, holder_entry, waiters, with_estimates
from airflow_slotgroups.services.transaction import read
from airflow_slotgroups.store.estimates import read_holders
from airflow_slotgroups.store.groups import load_group
from airflow_slotgroups.store.keys import GRANTED, SECTION, live
from airflow_slotgroups.store.sections import waits_beside_hold


@dataclass(frozen=True)
class Standing:
    """The live request of a task instance.

    :param entry: as the queue shows it; None when more than `LOOK_AT` others are ahead.
    :param first: the first of those who are ahead, as (DAG, task), and
    :param holders: all who hold slots.
    :param not_through: why a new try of an acquire waits, though its section holds its slots.
    """

    pool: str
    entry: QueueEntry | None
    first: tuple[TaskKey, ...] = ()
    holders: tuple[TaskKey, ...] = ()
    not_through: str | None = None

    def facts(self, may_see: MaySee) -> GroupFacts:
        """Translate for the explanation, with the names that the reader may hear."""
        if self.entry is None:
            return GroupFacts(self.pool, RequestState.WAITING.value, f"over {LOOK_AT} others are ahead")
        if self.entry.position is None:
            return GroupFacts(self.pool, self.entry.state.value, self.not_through)
        place = self.entry.position
        return GroupFacts(
            name=self.pool,
            state=self.entry.state.value,
            reason=self.entry.reason_for(may_see),
            position=place,
            ahead=place - 1,
            ahead_named=listed(self.first, place - 1, may_see) if self.first else "",
            holders=listed(self.holders[:NAMED], len(self.holders), may_see) if self.holders else "",
        )


NAMED = 5
"""How many of those who are ahead, or hold slots, are named."""


def explain_task(dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> Explanation:
    """Say what holds a task instance now, and every limit with its value and its use.

    :raises UnknownTaskInstanceError: there is none.
    """
    return explain_request(dag_id, task_id, run_id, map_index)[0]


def explain_request(
    dag_id: str, task_id: str, run_id: str, map_index: int = -1, may_see: MaySee = everything
) -> tuple[Explanation, Standing | None]:
    """Say the same, and where it stands in a slot group, if it does.

    :param may_see: the DAGs that may be named.
    :raises UnknownTaskInstanceError: there is none.
    """
    return read(lambda session: explain_in(session, dag_id, task_id, run_id, map_index, may_see))


def explain_in(
    session: Session, dag_id: str, task_id: str, run_id: str, map_index: int, may_see: MaySee
) -> tuple[Explanation, Standing | None]:
    """Read the facts and judge them."""
    now = utcnow()
    ti = find_task_instance(session, dag_id, run_id, task_id, map_index)
    stands = standing(session, ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number, now)
    group = stands.facts(may_see) if stands is not None else None
    owner = group_of_pool(session, ti.pool)
    if group is None and owner is not None and ti.state in ("scheduled", "deferred"):
        reason = "the coordinator has not seen it yet; it does within a second, if one is alive"
        group = GroupFacts(owner, "unseen", reason)
    past = last_request(session, ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number)
    facts = read_facts(session, ti, now, group_of_pool=owner, group=group, past=past)
    return explain(facts), stands


def group_of_pool(session: Session, pool: str) -> str | None:
    """Name the slot group that a pool belongs to."""
    names = (pool, pool.removesuffix(RUNNING_SUFFIX))
    return session.scalar(select(SlotGroup.pool).where(SlotGroup.pool.in_(names)).limit(1))


def last_request(
    session: Session, dag_id: str, run_id: str, task_id: str, map_index: int, try_number: int
) -> PastFacts | None:
    """Tell of the last request of a try that has ended; None when there is none."""
    query = (
        select(R)
        .where(
            R.dag_id == dag_id,
            R.run_id == run_id,
            R.task_id == task_id,
            R.map_index == map_index,
            R.try_number == try_number,
            R.ended_at.is_not(None),
        )
        .order_by(R.id.desc())
        .limit(1)
    )
    request = session.scalars(query).first()
    if request is None or request.ended_at is None:
        return None
    until = request.granted_at or request.ended_at
    return PastFacts(
        group=request.pool,
        admission=request.admission,
        end_reason=request.end_reason,
        waited=max(0.0, (until - request.arrived_at).total_seconds()),
        held=(request.ended_at - request.granted_at).total_seconds() if request.granted_at else None,
    )


def standing(
    session: Session, dag_id: str, run_id: str, task_id: str, map_index: int, try_number: int, now: datetime
) -> Standing | None:
    """Tell where a try stands in its slot group; None when it has no live request."""
    query = select(R).where(
        R.dag_id == dag_id,
        R.run_id == run_id,
        R.task_id == task_id,
        R.map_index == map_index,
        live(),
    )
    request = session.scalars(query).one_or_none()
    if request is None:
        return None
    if request.state == GRANTED and request.try_number == try_number:
        return Standing(request.pool, holder_entry(session, request, now))
    if request.state == GRANTED and request.kind == SECTION and waits_beside_hold(session, request):
        entry = holder_entry(session, request, now)
        return Standing(request.pool, entry, not_through=entry.notice or "it goes on with its slots at once")
    if request.try_number != try_number:
        return None
    # The planner says why, as it does for the queue.
    group = load_group(session, request.pool)
    entries = waiters(session, group, LOOK_AT, now)
    found = [one for one in entries if one.request_id == request.id]
    mine = next(iter(with_estimates(session, group, entries, found, now)), None)
    ahead = entries[: min(NAMED, mine.position - 1)] if mine is not None and mine.position else []
    first = tuple(TaskKey(one.dag_id, one.task_id) for one in ahead)
    holders = tuple(one.task for one in read_holders(session, request.pool, now))
    return Standing(request.pool, mine, first, holders)

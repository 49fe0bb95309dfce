"""The steps that put a group right, in the order in which a cycle does them.

Each first finds, which needs no lock, and then applies what it found, under the group's lock. A cycle in
which no step finds anything writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.dags import TaskLimitReader
from airflow_slotgroups.airflow_core.jobs import executors_have_room
from airflow_slotgroups.airflow_core.locks import is_locked, loses_transaction
from airflow_slotgroups.coordinator.metrics import Event, What
from airflow_slotgroups.domain.states import Admission, EndReason, Mode
from airflow_slotgroups.store.adoption import go_on_dissolving
from airflow_slotgroups.store.decisions import cannot_start, take_back, without_room
from airflow_slotgroups.store.discovery import Arrival, enqueue, find_arrivals, has_arrivals
from airflow_slotgroups.store.expiry import Expired, fail_expired, find_expired
from airflow_slotgroups.store.groups import StoredGroup
from airflow_slotgroups.store.history import holds_of
from airflow_slotgroups.store.holders import (
    HolderFindings,
    Stranger,
    count_strangers,
    find_strangers,
    look_at_holders,
    settle_holders,
)
from airflow_slotgroups.store.levers import mend_unlimited, unlimited_is_wrong
from airflow_slotgroups.store.queue import QueuedTask, granted_tasks, heads_of_queues
from airflow_slotgroups.store.requests import end_requests
from airflow_slotgroups.store.sections import find_ended_holds, find_test_acquires, go_on, pass_through
from airflow_slotgroups.store.sizes import edited_by_hand, keep_pools, pools_to_write
from airflow_slotgroups.store.strays import (
    Stray,
    find_outsiders,
    find_strays,
    has_unasked,
    send_home,
    take_inside,
    waits,
)

SLOW_DISCOVERY = 0.02
"""Seconds; a discovery that takes longer is made once in `SLOW_PACE` seconds alone (DESIGN rule 9)."""
SLOW_PACE = 1.0

Found = TypeVar("Found")


@dataclass
class Desk:
    """What a coordinator keeps in mind from one cycle to the next; losing it costs time and nothing else."""

    lease: timedelta
    allow_run_priority: bool = False
    limits: TaskLimitReader = field(default_factory=TaskLimitReader)
    next_discovery: float = 0.0
    pools_due: bool = False
    """Pools are still to be written: somebody held a row."""
    events: list[Event] = field(default_factory=list)
    """What the steps of this cycle did to requests."""

    def at_its_pace(self, discover: Callable[[], Found]) -> Found | None:
        """Look for newcomers; less often when that takes long and finds nobody."""
        started = time.monotonic()
        if started < self.next_discovery:
            return None
        found = discover()
        if time.monotonic() - started > SLOW_DISCOVERY and not found:
            self.next_discovery = started + SLOW_PACE
        return found

    def note_ended(self, session: Session, ids: Collection[int]) -> None:
        """Note how long the slots were held that are free now."""
        for pool, held in holds_of(session, ids):
            self.events.append(Event(What.RELEASES, pool, held))


Groups = Sequence[StoredGroup]


Find = Callable[[Desk, Session, Groups, datetime], Any]


class Step(NamedTuple):
    """Find what is to do (something falsy for nothing), and do it.

    :param urgent: grants go by what it leaves, so urgent cycles do it too, when a glance says that there is something.
    """

    find: Find
    apply: Callable[[Desk, Session, Groups, Any, datetime], None]
    urgent: bool = False


UNUSED = "was let in, but the scheduler did not start it"


class HolderChanges(NamedTuple):
    """What becomes of holders.

    :param unstartable: grants that came to nothing, and for which there is no way or no room now.
    :param overdue: grants that the scheduler has not used within the lease, though it could.
    """

    findings: HolderFindings
    unstartable: list[QueuedTask]
    overdue: list[QueuedTask]


def find_holder_changes(desk: Desk, session: Session, groups: Groups, now: datetime) -> HolderChanges | None:
    """Compare holders with their task instances."""
    findings = look_at_holders(session, alive(groups))
    idle = granted_tasks(session, findings.idle) if findings.idle else []
    unstartable = [task for task in idle if cannot_start(task, now)]
    leaving = {*findings.ended, *(task.waiter.id for task in unstartable)}
    unstartable += without_room(session, groups, idle, leaving)
    overdue = overdue_grants(desk, session, [t for t in idle if t not in unstartable], findings, now)
    changes = HolderChanges(findings, unstartable, overdue)
    return changes if findings.ended or findings.started or unstartable or overdue else None


def some_holder_ended(desk: Desk, session: Session, groups: Groups, now: datetime) -> bool:
    """Tell whether slots have become free."""
    return bool(look_at_holders(session, alive(groups)).ended)


def overdue_grants(
    desk: Desk, session: Session, idle: Sequence[QueuedTask], findings: HolderFindings, now: datetime
) -> list[QueuedTask]:
    """Pick grants unused past the lease, if somebody else waits for the slot and the executors have room."""
    late = [task for task in idle if findings.idle[task.waiter.id] + desk.lease < now]
    if not late:
        return []
    heads = heads_of_queues(session, {task.pool for task in late})
    return [task for task in late if task.pool in heads] if heads and executors_have_room(session) else []


def settle(desk: Desk, session: Session, groups: Groups, found: HolderChanges, now: datetime) -> None:
    """Release slots whose try has ended; take back grants that came to nothing."""
    desk.note_ended(session, settle_holders(session, found.findings, now))
    back = take_back(session, found.unstartable, not_before=None)
    back += take_back(session, found.overdue, not_before=now + desk.lease, notice=UNUSED)
    desk.events += [Event(What.PUT_BACKS, task.pool) for task in back]


def somebody_unasked(desk: Desk, session: Session, groups: Groups, now: datetime) -> bool:
    """Tell whether tasks that have not asked execute, or are about to, or stand where they should not."""
    return has_unasked(session, alive(groups))


def find_uncounted(desk: Desk, session: Session, groups: Groups, now: datetime) -> list[Stranger]:
    """Find tasks that execute without having asked."""
    return find_strangers(session, alive(groups))


def count_them(desk: Desk, session: Session, groups: Groups, found: list[Stranger], now: datetime) -> None:
    """Count them on sight."""
    count_strangers(session, found, alive(groups), Admission.OUTSIDE, now)


def find_lost(desk: Desk, session: Session, groups: Groups, now: datetime) -> list[Stray]:
    """Find task instances in running pools that have no business there."""
    return find_strays(session, alive(groups))


def bring_home(desk: Desk, session: Session, groups: Groups, found: list[Stray], now: datetime) -> None:
    """Set their pool back, so that they queue."""
    send_home(session, found, waits())


def find_outside(desk: Desk, session: Session, groups: Groups, now: datetime) -> list[Stray]:
    """Find holders that are to start again from a closed pool."""
    return find_outsiders(session, alive(groups))


def bring_inside(desk: Desk, session: Session, groups: Groups, found: list[Stray], now: datetime) -> None:
    """Set their pool to the running one."""
    take_inside(session, found)


def find_newcomers(desk: Desk, session: Session, groups: Groups, now: datetime) -> list[Arrival]:
    """Find scheduled tasks that have no request yet."""
    return desk.at_its_pace(lambda: find_arrivals(session, alive(groups), now)) or []


def somebody_came(desk: Desk, session: Session, groups: Groups, now: datetime) -> bool:
    """Tell whether there are any."""
    return desk.at_its_pace(lambda: has_arrivals(session, alive(groups), now)) or False


def enqueue_them(desk: Desk, session: Session, groups: Groups, found: list[Arrival], now: datetime) -> None:
    """Give them waiting requests; a new try of an acquire goes on with its own hold."""
    go_on(session, [arrival for arrival in found if arrival.goes_on()], now)
    found_in = enqueue(
        session,
        {group.name: group for group in groups},
        [arrival for arrival in found if not arrival.goes_on()],
        desk.limits,
        now,
        allow_run_priority=desk.allow_run_priority,
    )
    desk.events += [Event(What.DISCOVERIES, pool) for pool in found_in]


def find_overdue_waiters(desk: Desk, session: Session, groups: Groups, now: datetime) -> list[Expired]:
    """Find waiters whose max_wait has passed."""
    return find_expired(session, now, alive(groups))


def fail_them(desk: Desk, session: Session, groups: Groups, found: list[Expired], now: datetime) -> None:
    """Fail their tasks."""
    fail_expired(session, found, now)


def find_over(desk: Desk, session: Session, groups: Groups, now: datetime) -> dict[int, EndReason]:
    """Find holds whose section is over."""
    return find_ended_holds(session, alive(groups))


def end_holds(
    desk: Desk, session: Session, groups: Groups, found: dict[int, EndReason], now: datetime
) -> None:
    """Release their slots."""
    desk.note_ended(session, end_requests(session, found, now))


def find_tests(desk: Desk, session: Session, groups: Groups, now: datetime) -> list[UUID]:
    """Find acquires of test runs."""
    return find_test_acquires(session)


def let_tests_pass(desk: Desk, session: Session, groups: Groups, found: list[UUID], now: datetime) -> None:
    """Let them through; nothing of a test run is held or counted."""
    pass_through(session, found)


def find_dissolving(desk: Desk, session: Session, groups: Groups, now: datetime) -> list[StoredGroup]:
    """Find groups that are on their way back to an ordinary pool."""
    return [group for group in groups if group.mode is Mode.DISSOLVING]


def dissolve_on(
    desk: Desk, session: Session, groups: Groups, found: list[StoredGroup], now: datetime
) -> None:
    """Send home what was locked by others when a group was dissolved."""
    for group in found:
        dissolve_if_free(session, group)


def dissolve_if_free(session: Session, group: StoredGroup) -> None:
    """Go on with one group unless somebody holds its pools; the next cycle tries again."""
    try:
        with session.begin_nested():
            go_on_dissolving(session, group, wait=False)
    except DBAPIError as error:
        if loses_transaction(error) or not is_locked(error):
            raise


def find_wrong_unlimited(desk: Desk, session: Session, groups: Groups, now: datetime) -> bool:
    """Find forced tasks that stand in an unlimited pool which somebody deleted or edited."""
    return unlimited_is_wrong(session, alive(groups))


def mend_it(desk: Desk, session: Session, groups: Groups, found: bool, now: datetime) -> None:
    """Make it again, or the scheduler never starts them."""
    mend_unlimited(session)


def find_wrong_pools(desk: Desk, session: Session, groups: Groups, now: datetime) -> bool:
    """Find groups whose pools are not as they should be."""
    return was_opened(groups) or bool(pools_to_write(session, standing(groups)))


def pools_are_due(desk: Desk, session: Session, groups: Groups, now: datetime) -> bool:
    """Tell whether somebody has opened a closed pool, or pools could not be written."""
    return desk.pools_due or was_opened(groups)


def was_opened(groups: Groups) -> bool:
    """Tell whether somebody has opened a closed pool."""
    return any(edited_by_hand(group) for group in standing(groups))


def amend_them(desk: Desk, session: Session, groups: Groups, found: bool, now: datetime) -> None:
    """Close pools again, and write the running pools' sizes."""
    desk.pools_due = not keep_pools(session, standing(groups), now)


def standing(groups: Groups) -> list[StoredGroup]:
    """Return the groups that are not being dissolved."""
    return [group for group in groups if group.mode is not Mode.DISSOLVING]


def alive(groups: Groups) -> list[str]:
    """Name them."""
    return [group.name for group in standing(groups)]


STEPS = (
    Step(find_holder_changes, settle, urgent=True),
    Step(find_uncounted, count_them, urgent=True),
    Step(find_over, end_holds, urgent=True),
    Step(find_lost, bring_home, urgent=True),
    Step(find_outside, bring_inside),
    Step(find_tests, let_tests_pass),
    Step(find_newcomers, enqueue_them, urgent=True),
    Step(find_overdue_waiters, fail_them),
    Step(find_dissolving, dissolve_on),
    # Last, since they lock rows of slot_pool: the commit follows at once.
    Step(find_wrong_unlimited, mend_it),
    Step(find_wrong_pools, amend_them, urgent=True),
)

GLANCES: tuple[Find, ...] = (some_holder_ended, find_over, somebody_unasked, somebody_came, pools_are_due)
"""What an urgent cycle asks, at less cost than the steps themselves, to learn whether an urgent one is due."""

"""One cycle: what a coordinator does two to ten times a second (DESIGN sections 2 and 4)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.clock import Clock, utcnow
from airflow_slotgroups.airflow_core.locks import is_locked, limit_waiting, loses_transaction
from airflow_slotgroups.airflow_core.sessions import SessionFactory
from airflow_slotgroups.coordinator.metrics import Event, What
from airflow_slotgroups.coordinator.steps import GLANCES, STEPS, Desk, Find, Step
from airflow_slotgroups.domain.errors import BusyError, UnknownGroupError
from airflow_slotgroups.domain.order import FORCED_MAJOR
from airflow_slotgroups.domain.planner import free_slots
from airflow_slotgroups.domain.states import Kind, Mode
from airflow_slotgroups.store.decisions import MOST_GRANTS, decide, let_in
from airflow_slotgroups.store.groups import StoredGroup, load_group, load_groups, lock_free_groups
from airflow_slotgroups.store.queue import QueuedTask, heads_of_queues
from airflow_slotgroups.store.sizes import keep_pools
from airflow_slotgroups.store.use import read_granted, read_use

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 10
"""Decisions of one group in one cycle, while those let in are locked by others."""


@dataclass
class CycleResult:
    """What a cycle found and did.

    :param busy: some group has both waiters and holders, so that a slot may become free at any moment.
    :param found: steps that found something to do.
    :param granted: requests let in.
    :param events: what was done to requests, for the metrics.
    :param errors: what failed, by group or step; the rest was done.
    """

    busy: bool = False
    found: int = 0
    granted: int = 0
    events: list[Event] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)


class Cycle:
    """Looks without locks, and locks only what it then changes.

    :param sessions: opens a session, one for each transaction.
    :param clock: tells the moment.
    :param lease: how long a grant may stay unused.
    :param allow_run_priority: let a run's conf override the priority of its tasks.
    """

    def __init__(
        self,
        sessions: SessionFactory,
        clock: Clock = utcnow,
        lease: timedelta = timedelta(minutes=1),
        allow_run_priority: bool = False,
    ):
        self.sessions = sessions
        self.clock = clock
        self.noted: dict[str, str] = {}
        self.busy = False
        """As of the last thorough cycle."""
        self.unserved: set[str] = set()
        """Groups of which the last decision was not carried out in full: the next cycle goes on, urgent or not."""
        self.granted: Counter[str] = Counter()
        """Slots of granted requests by group, when the last cycle looked."""
        self.freed: set[str] = set()
        """Groups in which there are fewer of them than then."""
        self.ignored: set[Find] = set()
        """Glances for which the steps found nothing, until the next thorough cycle: they may ask for too much."""
        self.apart = False
        """Some step fails: each is done by itself at once."""
        self.desk = Desk(lease=lease, allow_run_priority=allow_run_priority)

    def run(self, *, thorough: bool = True) -> CycleResult:
        """Run one cycle.

        :param thorough: look at everything; else only for what grants go by, which costs a third.
        """
        if thorough:
            self.ignored.clear()
        # 1. Look for whatever is not as it should be, without locks.
        with self.sessions() as session:
            groups = load_groups(session)
            self.freed = self.slots_freed(session, groups)
            why = self.anything_to_do(session, groups, thorough=thorough)
        # 2. Put it right: holders end, strangers are counted, strays go home, waiters are enqueued.
        steps = [step for step in STEPS if thorough or step.urgent]
        result = self.put_right([group.name for group in groups], steps) if why else CycleResult()
        if why and not thorough and not result.found:
            self.ignored.add(why)
        # 3. Find the groups that have a waiter and room for one.
        names = self.groups_to_serve(groups, result, thorough=thorough)
        # 4. Let waiters in, one group after the other, one decision in one transaction.
        for name in names:
            self.serve(name, result)
        result.busy |= result.granted > 0
        if thorough:
            self.busy = result.busy
            self.apart = self.apart and bool(result.errors)
        return result

    def slots_freed(self, session: Session, groups: Sequence[StoredGroup]) -> set[str]:
        """Name the groups that have fewer granted slots than a cycle ago: a listener, too, gives slots back."""
        before = self.granted
        self.granted = read_granted(session, [group.name for group in groups]) if groups else Counter()
        return {name for name, slots in before.items() if self.granted[name] < slots}

    def anything_to_do(
        self, session: Session, groups: Sequence[StoredGroup], *, thorough: bool
    ) -> Find | None:
        """Ask in order until a question finds something, and return it."""
        now = self.clock()
        questions = [step.find for step in STEPS] if thorough else GLANCES
        ask: Find | None = None
        try:
            for ask in questions if groups else ():
                if ask not in self.ignored and ask(self.desk, session, groups, now):
                    return ask
        except DBAPIError:
            raise
        except Exception:
            # The step that can not look is found out below, where it is kept apart from the others.
            return ask
        return None

    def put_right(self, names: Sequence[str], steps: Sequence[Step]) -> CycleResult:
        """Do the steps in order under the locks of the groups, each looking anew at what the ones before left."""
        result = CycleResult()
        self.desk.events = result.events
        with self.sessions() as session:
            limit_waiting(session)
            groups = lock_free_groups(session, names)
            if groups and (self.apart or not self.do_at_once(session, steps, groups, result)):
                self.apart = True
                for step in steps:
                    self.do_apart(session, step, groups, result)
            if not groups:
                # Whoever has locked them all finds it.
                result.found += 1
        return result

    def do_at_once(
        self, session: Session, steps: Sequence[Step], groups: Sequence[StoredGroup], result: CycleResult
    ) -> bool:
        """Do the steps in one savepoint, since one for each would be half of all statements.

        :return: False, with nothing changed, when one of them failed.
        """
        try:
            with savepoint(session, result):
                for step in steps:
                    result.found += self.do_step(session, step, groups)
        except Exception as error:
            if loses_transaction(error):
                raise
            return False
        return True

    def do_apart(
        self, session: Session, step: Step, groups: Sequence[StoredGroup], result: CycleResult
    ) -> None:
        """Do one step in a savepoint: one task that it can not deal with must not keep everybody waiting."""
        try:
            with savepoint(session, result):
                result.found += self.do_step(session, step, groups)
        except DBAPIError as error:
            if loses_transaction(error):
                raise
            if not is_locked(error):
                self.note_error(step.apply.__name__, error, result)
        except Exception as error:
            self.note_error(step.apply.__name__, error, result)

    def do_step(self, session: Session, step: Step, groups: Sequence[StoredGroup]) -> bool:
        """Look, and do what was found.

        :return: whether there was something.
        """
        now = self.clock()
        found = step.find(self.desk, session, groups, now)
        if found:
            step.apply(self.desk, session, groups, found, now)
        return bool(found)

    def groups_to_serve(
        self, groups: Sequence[StoredGroup], result: CycleResult, *, thorough: bool
    ) -> list[str]:
        """Name the groups that may let somebody in; full ones cost nothing more.

        :param groups: as the cycle found them; a thorough one reads anew what its steps made of them.
        """
        if not thorough:
            # The others are as the last thorough cycle left them, or wait half a second: people who force or
            # prioritize, DAGs that are unpaused.
            touched = {event.pool for event in result.events} | self.unserved | self.freed
            result.busy = self.busy
            groups = [group for group in groups if group.name in touched]
            if not groups:
                return []
        with self.sessions() as session:
            return self.with_waiter_and_room(session, load_groups(session) if thorough else groups, result)

    def with_waiter_and_room(
        self, session: Session, groups: Sequence[StoredGroup], result: CycleResult
    ) -> list[str]:
        """Name those of the groups in which somebody waits, and slots are free, or were a moment ago."""
        groups = [group for group in groups if group.mode is not Mode.DISSOLVING]
        heads = heads_of_queues(session, [group.name for group in groups])
        waiting = [group for group in groups if group.name in heads]
        self.unserved &= heads.keys()
        open_now = self.open_now(result)
        to_ask = [group.name for group in waiting if group.name not in open_now]
        use = read_use(session, to_ask) if to_ask else {}
        result.busy |= any(group.name in open_now or use.get(group.name) for group in waiting)
        return [
            group.name
            for group in waiting
            if group.name in open_now
            or heads[group.name] == FORCED_MAJOR
            or has_room(group, use.get(group.name, 0))
        ]

    def open_now(self, result: CycleResult) -> set[str]:
        """Name the groups that had free slots a moment ago: somebody is let in, likely."""
        return self.unserved | {event.pool for event in result.events if event.what is What.RELEASES}

    def serve(self, name: str, result: CycleResult) -> None:
        """Let waiters of one group in; a fault in one group does not keep the others waiting."""
        try:
            if name in self.open_now(result) or self.would_let_in(name):
                events = self.let_waiters_in(name)
                result.granted += len(events)
                result.events += events
        except UnknownGroupError:
            log.debug("Slot group '%s' was dissolved in the meantime", name)
        except BusyError:
            log.debug("Somebody holds the pools of slot group '%s'; the next cycle lets in", name)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            if not is_locked(error):
                self.note_error(name, error, result)
                self.unserved.discard(name)
        except Exception as error:
            self.note_error(name, error, result)
            self.unserved.discard(name)

    def note_error(self, where: str, error: Exception, result: CycleResult) -> None:
        """Report a fault of one group or step; log it in full when it is new, since cycles are many."""
        text = f"{type(error).__name__}: {error}"
        result.errors[where] = text
        if self.noted.get(where) != text:
            log.exception("Slot groups: '%s' failed; the rest is served", where)
        self.noted[where] = text

    def would_let_in(self, name: str) -> bool:
        """Decide without locks whether it is worth while to take them."""
        with self.sessions() as session:
            return bool(decide(session, load_group(session, name), self.clock(), enough=1).plan.grants)

    def let_waiters_in(self, name: str) -> list[Event]:
        """Decide again under the group's lock, and carry it out; what can not be, is tried again by the next cycle."""
        self.unserved.add(name)
        granted: list[QueuedTask] = []
        in_full = False
        with self.sessions() as session:
            limit_waiting(session)
            now = self.clock()
            for group in lock_free_groups(session, [name]):
                granted, in_full = self.carry_out(session, group, now)
        if in_full:
            self.unserved.discard(name)
        return [Event(What.GRANTS, task.pool, now - task.arrived_at) for task in granted]

    def carry_out(self, session: Session, group: StoredGroup, now: datetime) -> tuple[list[QueuedTask], bool]:
        """One decision in one transaction (rule 7).

        :return: those that were let in, and whether that were all for whom there is room.
        """
        granted: list[QueuedTask] = []
        tried: list[int] = []
        in_full = True
        for _ in range(MOST_ATTEMPTS):
            decision = decide(session, group, now, without=tried)
            chosen = [waiter.id for waiter in decision.plan.grants]
            let = let_in(session, group, decision, now)
            granted += let
            tried += chosen
            in_full &= len(let) == len(chosen) < MOST_GRANTS
            if len(let) == len(chosen):
                break
            # Somebody has locked the others: their slots are not to stay idle for it.
        group.row.stalled_since = (group.row.stalled_since or now) if tried and not granted else None
        self.fit_running(session, group, granted, now)
        return granted, in_full

    def fit_running(
        self, session: Session, group: StoredGroup, granted: Sequence[QueuedTask], now: datetime
    ) -> None:
        """Give the running pool its size where grants go by it.

        Without the slots of sections and forced tasks, or the scheduler would fill them; and with those of sections
        that a listener has ended, or nobody could use them.

        :raises BusyError: that can not be, or has come too late, and a section was let in.
        """
        sections = [task for task in granted if task.waiter.kind is Kind.SECTION]
        forced = any(task.waiter.forced for task in granted)
        given_back = bool(granted) and group.name in self.freed
        if not (sections or forced or given_back):
            return
        fits = keep_pools(session, [group], now)
        self.desk.pools_due |= not fits
        if sections and not fits:
            raise BusyError(f"shrink pool '{group.running_name}'")
        if any(not task.waiter.forced for task in sections):
            # The scheduler may have started a quick retry in the running pool since use was read.
            size = free_slots(group.planned(), 0)
            if size is not None and read_use(session, [group.name])[group.name] > size:
                raise BusyError(f"let a section into '{group.name}'")


@contextmanager
def savepoint(session: Session, result: CycleResult) -> Iterator[None]:
    """Undo what fails within, the events too."""
    before = len(result.events)
    try:
        with session.begin_nested():
            yield
    except BaseException:
        del result.events[before:]
        raise


def has_room(group: StoredGroup, used: int) -> bool:
    """Tell whether an ordinary waiter may be let in at all."""
    return group.mode in (Mode.ACTIVE, Mode.BYPASS) and free_slots(group.planned(), used) != 0

"""What need not run in every cycle: waiters that wait no longer, limits that were edited, the heartbeat."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy.exc import DBAPIError

from airflow_slotgroups.airflow_core.clock import Clock, utcnow
from airflow_slotgroups.airflow_core.dags import TaskLimitReader, TaskLimits
from airflow_slotgroups.airflow_core.locks import is_locked, limit_waiting
from airflow_slotgroups.airflow_core.sessions import SessionFactory
from airflow_slotgroups.coordinator.cost import Cost
from airflow_slotgroups.store.coordinators import Identity, report
from airflow_slotgroups.store.groups import load_groups, lock_free_groups
from airflow_slotgroups.store.limits import TaskKey, find_changed_limits, write_limits
from airflow_slotgroups.store.requests import end_requests
from airflow_slotgroups.store.sections import find_marked, hold_marked
from airflow_slotgroups.store.waiters import AT_MOST, find_left

log = logging.getLogger(__name__)

INTERVAL = 2.0
"""Seconds between sweeps, more when a sweep takes long."""
SHARE = 0.05
"""A sweep takes at most this share of the time."""
REPORT_TIMEOUT_MS = 100
"""A heartbeat waits no longer for its row, which nobody but us has reason to lock."""


class Sweep:
    """Runs on an interval of its own.

    :param sessions: opens a session, one for each transaction.
    :param limits: reads the limits of tasks.
    :param clock: tells the moment.
    """

    def __init__(self, sessions: SessionFactory, limits: TaskLimitReader, clock: Clock = utcnow):
        self.sessions = sessions
        self.limits = limits
        self.clock = clock
        self.due_at = 0.0
        self.cost = Cost()

    def run_if_due(self) -> None:
        """Sweep if the interval has passed."""
        started = time.monotonic()
        if started < self.due_at:
            return
        more = self.run()
        cost = self.cost.of(time.monotonic() - started)
        self.due_at = started if more else started + max(INTERVAL, cost / SHARE)

    def run(self) -> bool:
        """Cancel the requests of waiters that wait no longer, and keep the limits of the others up to date.

        :return: whether there may be more of them.
        """
        with self.sessions() as session:
            names = [group.name for group in load_groups(session)]
            marked = find_marked(session, names) if names else []
            left = find_left(session, names) if names else {}
            changed = find_changed_limits(session, names, self.limits) if names else {}
        if marked or left or changed:
            self.put_right(names, changed)
        return len(left) >= AT_MOST

    def put_right(self, names: list[str], changed: Mapping[TaskKey, TaskLimits]) -> None:
        """Look again under the locks of the groups, and write what is found.

        :param changed: limits of tasks; read before, since it may take DAGs to load.
        """
        with self.sessions() as session:
            limit_waiting(session)
            locked = [group.name for group in lock_free_groups(session, names)]
            if locked:
                # In this order: what is a hold now waits no longer.
                hold_marked(session, find_marked(session, locked), self.clock())
                end_requests(session, find_left(session, locked), self.clock())
                write_limits(session, locked, changed)


class Heartbeat:
    """Reports to the database that the coordinator lives, every two seconds.

    :param sessions: opens a session, one for each transaction.
    :param who: the coordinator.
    :param clock: tells the moment.
    """

    def __init__(self, sessions: SessionFactory, who: Identity, clock: Clock = utcnow):
        self.sessions = sessions
        self.who = who
        self.clock = clock
        self.due_at = 0.0
        self.last_cycle_at: datetime | None = None
        self.error: str | None = None

    def cycle_ended(self, seconds: float, error: str | None) -> None:
        """Take note of a cycle, and report if it is time or if something else is wrong than before.

        :param error: what went wrong in the cycle; None when it ended well.
        """
        if error is None:
            self.last_cycle_at = self.clock()
        if time.monotonic() >= self.due_at or error != self.error:
            self.error = error
            self.due_at = time.monotonic() + INTERVAL
            self.write_if_free(seconds, error)

    def write_if_free(self, seconds: float, error: str | None) -> None:
        """Write the row, or leave it to the next time: whoever waits for slots is not to wait for a report."""
        try:
            self.write(seconds, error)
        except DBAPIError as failure:
            if not is_locked(failure):
                raise
            log.debug("The coordinator's row is locked, it reports later")

    def write(self, seconds: float, error: str | None) -> None:
        """Write the row."""
        with self.sessions() as session:
            limit_waiting(session, REPORT_TIMEOUT_MS)
            report(
                session,
                self.who,
                self.clock(),
                last_cycle_at=self.last_cycle_at,
                cycle_seconds=seconds,
                error=error,
            )

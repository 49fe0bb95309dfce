"""The loop around the cycle: it owns pauses, back-off and the end; a cycle only says how busy it was."""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta

from sqlalchemy.exc import DBAPIError

from airflow_slotgroups.airflow_core.locks import is_locked
from airflow_slotgroups.coordinator.cost import Cost
from airflow_slotgroups.coordinator.cycle import Cycle
from airflow_slotgroups.coordinator.metrics import Metrics
from airflow_slotgroups.coordinator.purge import Purge
from airflow_slotgroups.coordinator.sweep import Heartbeat, Sweep
from airflow_slotgroups.domain.errors import SlotGroupsError

log = logging.getLogger(__name__)

THOROUGH_PACE = 0.5
"""Seconds from one thorough cycle to the next."""
SHARE = 0.25
"""Thorough cycles take at most this share of the time, while there are others to run."""

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
"""Seconds, less than after which a silent coordinator counts as dead."""


class Loop:
    """Runs cycles until it is told to stop; no error of the database ends it.

    :param cycle: what is done again and again.
    :param sweep: what is done less often.
    :param heartbeat: where it reports.
    :param metrics: what is told to Airflow's metrics.
    :param purge: what forgets old requests.
    :param busy: time from cycle to cycle while a slot may become free at any moment.
    :param idle: time from cycle to cycle else.
    """

    def __init__(
        self,
        cycle: Cycle,
        sweep: Sweep,
        heartbeat: Heartbeat,
        metrics: Metrics,
        purge: Purge,
        *,
        busy: timedelta,
        idle: timedelta,
    ):
        self.cycle = cycle
        self.sweep = sweep
        self.heartbeat = heartbeat
        self.metrics = metrics
        self.purge = purge
        self.busy = busy.total_seconds()
        self.idle = idle.total_seconds()
        self.failures = 0
        self.thorough_at = 0.0
        self.costs = {True: Cost(), False: Cost()}
        """Of thorough cycles and of urgent ones."""
        self.errors: dict[str, str] = {}
        self.stopping = threading.Event()

    def run(self) -> None:
        """Run until `stop` is called."""
        while not self.stopping.is_set():
            self.stopping.wait(self.one_round())

    def stop(self) -> None:
        """End after the cycle that runs now; may be called from a signal handler."""
        self.stopping.set()

    def one_round(self) -> float:
        """Run one cycle and what is due beside it.

        :return: seconds to pause.
        """
        started = time.monotonic()
        try:
            pause = self.work()
        except Exception as error:
            self.report_failure(time.monotonic() - started, error)
            return self.back_off(error)
        if self.failures:
            log.info("Slot groups are served again after %d failed cycles", self.failures)
        self.failures = 0
        return pause

    def work(self) -> float:
        """One cycle, what is due beside it, and the report."""
        started = time.monotonic()
        thorough = started >= self.thorough_at
        result = self.cycle.run(thorough=thorough)
        took = time.monotonic() - started
        cost = self.costs[thorough].of(took)
        if thorough:
            self.thorough_at = started + max(THOROUGH_PACE, cost / SHARE)
        self.sweep.run_if_due()
        if thorough:
            self.errors = result.errors
        # What an urgent cycle has not done may still be wrong.
        error = "; ".join(f"'{name}': {what}" for name, what in {**self.errors, **result.errors}.items())
        self.heartbeat.cycle_ended(took, error or None)
        # Both keep their failures to themselves: whoever waits is not to suffer from them.
        self.metrics.cycle_ended(took, result.events)
        self.purge.run_if_due()
        # A cycle pauses at least as long as it takes, so that it never has more than half of the database.
        return max((self.busy if result.busy else self.idle) - took, cost)

    def report_failure(self, took: float, error: Exception) -> None:
        """Let `check` say what is wrong, and not that nobody is alive; if the database answers at all."""
        try:
            self.heartbeat.cycle_ended(took, first_line(error))
        except Exception as second:
            log.debug("The failure could not be reported: %s", first_line(second))

    def back_off(self, error: Exception) -> float:
        """Log a failed cycle, once in full and then in short, and tell how long to wait before the next."""
        self.failures += 1
        if isinstance(error, DBAPIError) and is_locked(error) and self.failures < 3:
            log.debug("The database is locked; the cycle is tried again")
        elif isinstance(error, SlotGroupsError):
            log.error("Slot groups are not served: %s", error)
        elif self.failures == 1:
            log.exception("Slot groups: a cycle failed and is tried again")
        else:
            log.error("Slot groups are not served, %d cycles failed: %s", self.failures, first_line(error))
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures - 1, 10))


def first_line(error: Exception) -> str:
    """Say in one line what an error says in many."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"

"""Forgetting what is older than the history that people want, a little at a time."""

from __future__ import annotations

import logging
import time
from datetime import timedelta

from sqlalchemy.exc import DBAPIError

from airflow_slotgroups.airflow_core.clock import Clock, utcnow
from airflow_slotgroups.airflow_core.locks import is_locked, limit_waiting
from airflow_slotgroups.airflow_core.sessions import SessionFactory
from airflow_slotgroups.coordinator.cost import Cost
from airflow_slotgroups.store.history import BATCH, purge_changes, purge_requests

log = logging.getLogger(__name__)

INTERVAL = 60.0
"""Seconds between purges when there is little to forget."""
PAUSE = 0.5
"""Least pause, in seconds, between two batches while there is much."""
SHARE = 0.05
"""Purging takes at most this share of the time."""


class Purge:
    """Deletes ended requests and changes of groups that are older than the retention.

    Nothing that is served depends on it: whatever fails here is logged, and tried again a minute later.

    :param sessions: opens a session, one for each transaction.
    :param retention: how long ended requests and changes are kept.
    :param clock: tells the moment.
    """

    def __init__(self, sessions: SessionFactory, retention: timedelta, clock: Clock = utcnow):
        self.sessions = sessions
        self.retention = retention
        self.clock = clock
        self.due_at = 0.0
        self.cost = Cost()

    def run_if_due(self) -> None:
        """Purge one batch if it is time."""
        started = time.monotonic()
        if started < self.due_at:
            return
        more = self.run_safely()
        cost = self.cost.of(time.monotonic() - started)
        self.due_at = started + max(PAUSE if more else INTERVAL, cost / SHARE)

    def run_safely(self) -> bool:
        """Purge one batch; a failure is no more than a line in the log."""
        try:
            return self.run()
        except DBAPIError as error:
            if not is_locked(error):
                log.warning("Old requests could not be purged", exc_info=True)
        except Exception:
            log.warning("Old requests could not be purged", exc_info=True)
        return False

    def run(self) -> bool:
        """Purge one batch in a short transaction.

        :return: whether there may be more.
        """
        before = self.clock() - self.retention
        with self.sessions() as session:
            limit_waiting(session)
            requests = purge_requests(session, before)
            changes = purge_changes(session, before)
        return max(requests, changes) >= BATCH

"""What a coordinator tells Airflow's metrics; nothing that fails here reaches a cycle."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.clock import Clock, utcnow
from airflow_slotgroups.airflow_core.metrics import count, gauge, timing
from airflow_slotgroups.airflow_core.sessions import SessionFactory
from airflow_slotgroups.domain.planner import free_slots
from airflow_slotgroups.domain.snapshot import UNLIMITED
from airflow_slotgroups.domain.states import Mode, Word
from airflow_slotgroups.store.decisions import decide
from airflow_slotgroups.store.groups import StoredGroup, load_groups
from airflow_slotgroups.store.overview import Waiting, read_waiting
from airflow_slotgroups.store.use import read_use

log = logging.getLogger(__name__)

INTERVAL = 10.0
"""Seconds between two readings of the gauges: counting who waits is nothing for every cycle."""


class What(Word):
    """What a cycle did to a request, by the name of its counter."""

    GRANTS = "grants"
    PUT_BACKS = "put_backs"
    DISCOVERIES = "discoveries"
    RELEASES = "releases"


TIMERS = {What.GRANTS: "wait", What.RELEASES: "hold"}
"""What the duration of an event is."""


class Event(NamedTuple):
    """Something that a cycle did, and committed.

    :param took: how long it had waited or held.
    """

    what: What
    pool: str
    took: timedelta | None = None


class Metrics:
    """Sends counters and timers with each cycle, gauges on an interval of its own.

    :param sessions: opens a session, one for each transaction.
    :param clock: tells the moment.
    """

    def __init__(self, sessions: SessionFactory, clock: Clock = utcnow):
        self.sessions = sessions
        self.clock = clock
        self.due_at = 0.0
        self.failed = False
        self.eligible: dict[str, dict[int, datetime]] = defaultdict(dict)
        """By group, the requests that could be let in at the last reading, and when each was first seen so."""

    def cycle_ended(self, seconds: float, events: Sequence[Event]) -> None:
        """Send what a cycle did and, if it is time, how the groups stand."""
        try:
            self.send(seconds, events)
        except Exception:
            # Once in full; whoever reads the log knows then.
            log.log(logging.DEBUG if self.failed else logging.WARNING, "No metrics are sent", exc_info=True)
            self.failed = True
        else:
            self.failed = False

    def send(self, seconds: float, events: Sequence[Event]) -> None:
        """Send all that is due."""
        timing("cycle", timedelta(seconds=seconds))
        send_events(events)
        now = time.monotonic()
        if now >= self.due_at:
            self.due_at = now + INTERVAL
            with self.sessions() as session:
                self.send_gauges(session)

    def send_gauges(self, session: Session) -> None:
        """Read all groups, and tell how each stands."""
        groups = load_groups(session)
        names = [group.name for group in groups]
        use = read_use(session, names) if names else Counter()
        waiting = read_waiting(session, names) if names else {}
        now = self.clock()
        for group in groups:
            stalled = self.stalled(session, group, now) if group.name in waiting else timedelta(0)
            send_group(group, use[group.name], waiting.get(group.name, Waiting()), stalled, now)
        for gone in self.eligible.keys() - set(waiting):
            del self.eligible[gone]

    def stalled(self, session: Session, group: StoredGroup, now: datetime) -> timedelta:
        """Tell for how long somebody could have been let in, and was not.

        A request counts once it is found so by two readings in a row: one that is about to be let in is none.
        """
        grants = decide(session, group, now).plan.grants
        since = self.eligible_since(group.name, [waiter.id for waiter in grants], now)
        if grants and group.row.stalled_since is not None:
            since = min(since, group.row.stalled_since)
        return max(now - since, timedelta(0))

    def eligible_since(self, pool: str, ids: Collection[int], now: datetime) -> datetime:
        """Remember who could be let in, and return since when the first of them could."""
        before = self.eligible[pool]
        self.eligible[pool] = {request_id: before.get(request_id, now) for request_id in ids}
        return min(self.eligible[pool].values(), default=now)


def send_events(events: Sequence[Event]) -> None:
    """Send counters, added up, and the duration of each."""
    for (what, pool), number in Counter((event.what, event.pool) for event in events).items():
        count(what.value, number, pool)
    for event in events:
        if event.took is not None:
            timing(TIMERS[event.what], event.took, event.pool)


def send_group(group: StoredGroup, used: int, waiting: Waiting, stalled: timedelta, now: datetime) -> None:
    """Tell how a group stands; -1 says "no limit", as in Airflow's pools."""
    free = free_slots(group.planned(), used)
    limited = group.row.slots != UNLIMITED and group.mode is not Mode.BYPASS
    oldest = now - waiting.since if waiting.since is not None else timedelta(0)
    gauges: dict[str, float] = {
        "size": group.row.slots if limited else UNLIMITED,
        "waiting": waiting.number,
        "use": used,
        "free": UNLIMITED if free is None else free,
        "overdraft": max(0, used - group.row.slots) if limited else 0,
        "oldest_wait_seconds": max(0.0, oldest.total_seconds()),
        "stalled_seconds": stalled.total_seconds(),
    }
    for name, value in gauges.items():
        gauge(name, value, group.name)

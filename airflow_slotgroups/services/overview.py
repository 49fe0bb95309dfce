"""All groups at a glance, for API and page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.clock import utcnow
from airflow_slotgroups.domain.planner import plan
from airflow_slotgroups.domain.snapshot import Snapshot
from airflow_slotgroups.domain.use import Share
from airflow_slotgroups.services.groups import GroupStatus, find_group, status_of
from airflow_slotgroups.services.health import Problem, check_pools, check_progress
from airflow_slotgroups.services.transaction import read
from airflow_slotgroups.store.groups import StoredGroup, load_groups
from airflow_slotgroups.store.overview import Waiting, read_shares, read_waiting
from airflow_slotgroups.store.queue import QueuedTask, waiting_in

LOOK_AT = 50
"""Waiters looked at to name the one that is next."""


@dataclass(frozen=True)
class Overview:
    """A group at a glance.

    :param shares: slots in use, by what for.
    :param waiting_since: arrival of the one that waits longest.
    :param next_in: the first waiter that could start by itself, if one of the first `LOOK_AT` could.
    :param problems: what is wrong with the group.
    """

    status: GroupStatus
    shares: dict[Share, int]
    waiting_since: datetime | None
    next_in: QueuedTask | None
    problems: list[Problem]


def overview() -> list[Overview]:
    """Return all groups, by name."""
    return read(lambda session: overview_of(session, load_groups(session)))


def overview_of_one(name: str) -> Overview:
    """Return one group.

    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    """
    return read(lambda session: overview_of(session, [find_group(session, name)])[0])


def overview_of(session: Session, groups: Sequence[StoredGroup]) -> list[Overview]:
    """Read what all of them need together, then each."""
    names = [group.name for group in groups]
    shares = read_shares(session, names) if names else {}
    waiting = read_waiting(session, names) if names else {}
    now = utcnow()
    return [
        describe(session, group, shares.get(group.name, Counter()), waiting.get(group.name, Waiting()), now)
        for group in groups
    ]


def describe(
    session: Session, group: StoredGroup, shares: Counter[Share], waiting: Waiting, now: datetime
) -> Overview:
    """Describe one group."""
    status = status_of(session, group)
    return Overview(
        status=status,
        shares={share: shares[share] for share in Share},
        waiting_since=waiting.since,
        next_in=next_in(session, group, status.used, now) if waiting.number else None,
        problems=[*check_pools(group), *check_progress(session, group, now)],
    )


def next_in(session: Session, group: StoredGroup, used: int, now: datetime) -> QueuedTask | None:
    """Name the waiter that is let in next: granted at once, or the head for which slots are kept."""
    tasks = waiting_in(session, group.name, LOOK_AT)
    result = plan(Snapshot(group.planned(), used, tuple(task.waiter for task in tasks), now))
    chosen: Collection[int] = [waiter.id for waiter in result.grants[:1]] or (
        [result.head.id] if result.head else []
    )
    return next((task for task in tasks if task.waiter.id in chosen), None)

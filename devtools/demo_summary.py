"""What the demo proves, worked out from rows of Airflow's tables and ours: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from statistics import median


@dataclass(frozen=True)
class Grant:
    """One request that was let in by the queue."""

    group: str
    task: str
    priority: int
    enqueued_at: datetime
    arrived_at: datetime
    #: The same value for all grants of one cycle.
    granted_at: datetime

    @property
    def waited(self) -> timedelta:
        """From becoming due to being let in."""
        return self.granted_at - self.arrived_at

    @property
    def rank(self) -> tuple[int, datetime]:
        """The place in the queue, smaller goes first."""
        return (-self.priority, self.arrived_at)


@dataclass(frozen=True)
class Execution:
    """One try of a task, as Airflow recorded it."""

    group: str
    slots: int
    start: datetime
    end: datetime


@dataclass(frozen=True)
class Section:
    """A section, from the start of its first task to the end of its last."""

    group: str
    name: str
    start: datetime
    end: datetime


@dataclass(frozen=True)
class GroupSummary:
    """What one group did during the demo."""

    group: str
    capacity: int
    most_used: int
    grants: int
    median_wait: timedelta
    longest_wait: timedelta
    inversions: tuple[tuple[Grant, Grant], ...]

    @property
    def faults(self) -> list[str]:
        """Where the group broke its word; empty when it kept it."""
        found = [
            f"{self.group}: {late.task} (priority {late.priority}) was let in"
            f" {(late.granted_at - early.granted_at).total_seconds():.1f} s after {early.task}"
            f" (priority {early.priority}), though it stood above it in the queue"
            for late, early in self.inversions
        ]
        if self.most_used > self.capacity:
            found.append(f"{self.group}: {self.most_used} slots were in use, {self.capacity} is its size")
        if not self.grants:
            found.append(f"{self.group}: its queue let nobody in")
        return found


def inversions(grants: Iterable[Grant]) -> list[tuple[Grant, Grant]]:
    """Pairs (late, early) of one group: `late` stood above `early`, was there, and got in a later cycle."""
    return [
        (late, early)
        for same_group in _by_group(grants)
        for early in same_group
        for late in same_group
        if late.rank < early.rank and late.enqueued_at <= early.granted_at < late.granted_at
    ]


def section_faults(sections: Sequence[Section]) -> list[str]:
    """Sections of a group of one slot that ran at the same time; that there are none is a fault, too."""
    found = [
        f"{one.group}: {other.name} began before {one.name} had ended"
        for one in sections
        for other in sections
        if one is not other and one.group == other.group and one.start <= other.start < one.end
    ]
    return found if sections else ["no section held slots"]


def expiry_faults(expired: Sequence[str], expected: str) -> list[str]:
    """Whether that task, and no other, failed because it had waited as long as its max_wait allows."""
    if list(expired) == [expected]:
        return []
    return [f"{expected} alone was to fail by its max_wait; failed: {', '.join(expired) or 'none'}"]


def most_used(executions: Iterable[Execution]) -> int:
    """The most slots that ran at one moment, by a sweep over starts and ends."""
    # At one moment ends come before starts: a slot is free from the very end of its task.
    steps = sorted(
        step for one in executions for step in ((one.start, 1, one.slots), (one.end, 0, -one.slots))
    )
    used = peak = 0
    for _, _, change in steps:
        used += change
        peak = max(peak, used)
    return peak


def cycles(grants: Iterable[Grant]) -> list[list[Grant]]:
    """Grants by the cycle that made them, in order of time, and of the queue within one cycle."""
    ordered = sorted(grants, key=lambda grant: (grant.granted_at, grant.rank))
    return [list(cycle) for _, cycle in groupby(ordered, key=lambda grant: grant.granted_at)]


def summarize(
    group: str, capacity: int, grants: Sequence[Grant], executions: Sequence[Execution]
) -> GroupSummary:
    """The summary of one group from everything that happened."""
    own = [grant for grant in grants if grant.group == group]
    waits = [grant.waited for grant in own] or [timedelta()]
    return GroupSummary(
        group=group,
        capacity=capacity,
        most_used=most_used(one for one in executions if one.group == group),
        grants=len(own),
        median_wait=timedelta(seconds=median(wait.total_seconds() for wait in waits)),
        longest_wait=max(waits),
        inversions=tuple(inversions(own)),
    )


def _by_group(grants: Iterable[Grant]) -> list[list[Grant]]:
    ordered = sorted(grants, key=lambda grant: grant.group)
    return [list(same) for _, same in groupby(ordered, key=lambda grant: grant.group)]

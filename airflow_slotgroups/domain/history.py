"""What has been in a group, over time: how long requests waited and held, and how many slots were in use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from airflow_slotgroups.domain.snapshot import UNLIMITED
from airflow_slotgroups.domain.states import Admission, Mode

WAITED = (Admission.QUEUE.value, Admission.FORCED.value)
"""Requests that came in otherwise never stood in the queue, and say nothing of how long it takes."""

Steps = list[tuple[datetime, int]]
"""By how much a number changed, by moment."""


@dataclass(frozen=True)
class Past:
    """A request, as far as it has come.

    :param admission: None while, or if, it was never granted, and
    :param granted_at: the same.
    :param ended_at: None while it waits or holds its slots.
    """

    slots: int
    admission: str | None
    arrived_at: datetime
    granted_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True)
class SizeChange:
    """From that moment on the group had this size and this mode."""

    at: datetime
    slots: int
    mode: str

    def size(self) -> int | None:
        """The slots that could be in use, -1 for no limit; None once the group was no more."""
        if self.mode == Mode.DISSOLVING.value:
            return None
        return UNLIMITED if self.mode == Mode.BYPASS.value else self.slots


@dataclass(frozen=True)
class Span:
    """A stretch of time, cut into buckets of one length."""

    start: datetime
    end: datetime
    buckets: int

    @property
    def width(self) -> timedelta:
        """Length of a bucket."""
        return (self.end - self.start) / self.buckets

    def edge(self, number: int) -> datetime:
        """The moment at which a bucket begins; that of the number behind the last is the end."""
        return self.start + self.width * number

    def bucket_of(self, moment: datetime) -> int | None:
        """Number of the bucket that a moment falls into; None outside the span."""
        if not self.start <= moment < self.end:
            return None
        return min((moment - self.start) // self.width, self.buckets - 1)


@dataclass(frozen=True)
class Spread:
    """How a number of durations are spread; None when there are none."""

    median: timedelta | None = None
    p95: timedelta | None = None


@dataclass(frozen=True)
class Bucket:
    """What was in one stretch of time.

    :param granted: requests let in.
    :param wait: of those let in, from arrival to grant.
    :param hold: of those that ended, from grant to end.
    :param most_used: the most slots in use at any one moment.
    :param most_waiting: the most requests that waited at any one moment.
    :param size: slots of the group at the end of the bucket, -1 for no limit, None while there was no group.
    """

    start: datetime
    end: datetime
    granted: int
    wait: Spread
    hold: Spread
    most_used: int
    most_waiting: int
    size: int | None


def summarize(span: Span, past: Collection[Past], changes: Sequence[SizeChange]) -> list[Bucket]:
    """Tell what was in each bucket.

    :param past: every request that waited or held slots at some moment of the span.
    :param changes: by time; the last one before the span included.
    """
    waits: dict[int, list[timedelta]] = defaultdict(list)
    holds: dict[int, list[timedelta]] = defaultdict(list)
    granted: dict[int, int] = defaultdict(int)
    for one in past:
        if one.granted_at is None:
            continue
        if (begun := span.bucket_of(one.granted_at)) is not None:
            granted[begun] += 1
            if one.admission in WAITED:
                waits[begun].append(one.granted_at - one.arrived_at)
        if one.ended_at is not None and (ended := span.bucket_of(one.ended_at)) is not None:
            holds[ended].append(one.ended_at - one.granted_at)
    used, waiting = highest(span, use_steps(past)), highest(span, waiting_steps(past))
    sizes = sizes_of(span, changes)
    return [
        Bucket(
            start=span.edge(number),
            end=span.edge(number + 1),
            granted=granted[number],
            wait=spread(waits[number]),
            hold=spread(holds[number]),
            most_used=used[number],
            most_waiting=waiting[number],
            size=sizes[number],
        )
        for number in range(span.buckets)
    ]


def spread(durations: Iterable[timedelta]) -> Spread:
    """Return median and 95th percentile, each a duration that occurred (nearest rank)."""
    ordered = sorted(max(one, timedelta(0)) for one in durations)
    return Spread(percentile(ordered, 50), percentile(ordered, 95))


def percentile(ordered: Sequence[timedelta], percent: int) -> timedelta | None:
    """The least duration that so many percent do not exceed."""
    return ordered[ceil(len(ordered) * percent / 100) - 1] if ordered else None


def highest(span: Span, steps: Steps) -> list[int]:
    """Move a sweep line over the steps, and keep the highest number of each bucket."""
    number, at = 0, 0
    found = []
    for bucket in range(span.buckets):
        while at < len(steps) and steps[at][0] <= span.edge(bucket):
            number, at = number + steps[at][1], at + 1
        most = number
        while at < len(steps) and steps[at][0] < span.edge(bucket + 1):
            number, at = number + steps[at][1], at + 1
            most = max(most, number)
        found.append(most)
    return found


def use_steps(past: Iterable[Past]) -> Steps:
    """Slots in use, from grant to end."""
    held = ((one.granted_at, one.ended_at, one.slots) for one in past)
    return steps_of((start, end, slots) for start, end, slots in held if start is not None)


def waiting_steps(past: Iterable[Past]) -> Steps:
    """Requests that waited, from arrival to grant, or to the end of those that never were granted."""
    queued = (one for one in past if one.granted_at is None or one.admission in WAITED)
    return steps_of((one.arrived_at, one.granted_at or one.ended_at, 1) for one in queued)


def steps_of(stretches: Iterable[tuple[datetime, datetime | None, int]]) -> Steps:
    """From start to end it is more by so much: what goes from one to the next at one moment counts once."""
    steps: dict[datetime, int] = defaultdict(int)
    for start, end, number in stretches:
        steps[start] += number
        if end is not None:
            steps[end] -= number
    return sorted(steps.items())


def sizes_of(span: Span, changes: Sequence[SizeChange]) -> list[int | None]:
    """Return the size at the end of each bucket."""
    sizes: list[int | None] = []
    size, at = None, 0
    for number in range(span.buckets):
        while at < len(changes) and changes[at].at < span.edge(number + 1):
            size, at = changes[at].size(), at + 1
        sizes.append(size)
    return sizes

"""When may a waiter start? A range from what recent requests did, never a promise (a pure function)."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil

from airflow_slotgroups.domain.snapshot import TaskKey

FEWEST = 5
"""With fewer samples nothing is said."""
LOW, HIGH = 10, 90
"""Percentiles of the hold times that make the two ends of the range."""


@dataclass(frozen=True)
class Standing:
    """A holder, or a waiter in the order of the queue.

    :param held: seconds since the grant; 0 for a waiter.
    """

    id: int
    task: TaskKey
    slots: int
    held: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """Seconds from now on between which a waiter is likely to start."""

    earliest_seconds: float
    latest_seconds: float


@dataclass
class Samples:
    """How long recent requests of a group held their slots, in seconds: of each task, and of all."""

    of_task: dict[TaskKey, list[float]] = field(default_factory=lambda: defaultdict(list))
    of_group: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, holds: Iterable[tuple[TaskKey, float]]) -> Samples:
        """Sort them by task."""
        samples = cls()
        for task, seconds in holds:
            samples.of_task[task].append(seconds)
            samples.of_group.append(seconds)
        for some in (samples.of_group, *samples.of_task.values()):
            some.sort()
        return samples

    def typical(self, task: TaskKey, percent: int) -> float:
        """A hold time of the task; of the group where the task has too few."""
        own = self.of_task.get(task, ())
        some = own if len(own) >= FEWEST else self.of_group
        return some[ceil(len(some) * percent / 100) - 1]


def estimates(
    size: int, holders: Sequence[Standing], waiters: Sequence[Standing], samples: Samples
) -> dict[int, Estimate]:
    """Say for each waiter, by id, when it may start; nothing at all below `FEWEST` samples.

    :param size: slots of the group.
    :param waiters: those that only wait for slots, in the order of the queue.
    """
    if len(samples.of_group) < FEWEST:
        return {}
    early = starts(size, holders, waiters, lambda task: samples.typical(task, LOW))
    late = starts(size, holders, waiters, lambda task: samples.typical(task, HIGH))
    return {number: Estimate(*sorted((early[number], late[number]))) for number in early}


def starts(
    size: int, holders: Sequence[Standing], waiters: Sequence[Standing], hold: Callable[[TaskKey], float]
) -> dict[int, float]:
    """Play the queue, one after the other, with one hold time for each task; seconds from now, by id.

    A holder that has held for longer than that is taken to end at any moment.
    """
    ends = [(max(0.0, hold(one.task) - one.held), one.slots) for one in holders]
    heapq.heapify(ends)
    free = size - sum(one.slots for one in holders)
    now = 0.0
    found: dict[int, float] = {}
    for waiter in waiters:
        if waiter.slots > size:
            continue
        while free < waiter.slots:
            end, slots = heapq.heappop(ends)
            now, free = max(now, end), free + slots
        found[waiter.id] = now
        free -= waiter.slots
        heapq.heappush(ends, (now + hold(waiter.task), waiter.slots))
    return found

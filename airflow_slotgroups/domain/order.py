"""The order of a queue as two stored numbers, so that reading it needs no sorting (DESIGN rule 4)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)

FORCED_MAJOR = -(2**62)
"""A forced request stands before every other: no priority of 32 bits, however aged, reaches this."""

MAX_AGEING_SECONDS = 7 * 24 * 3600


def order_major(priority: int, arrived_at: datetime, ageing_seconds: int, *, forced: bool = False) -> int:
    """First sort key, smaller goes first.

    Without ageing, the priority; with it, the moment (ms) of arrival, moved earlier by `ageing_seconds` for
    each point of priority.
    """
    if forced:
        return FORCED_MAJOR
    if ageing_seconds == 0:
        return -priority
    return order_minor(arrived_at) - priority * ageing_seconds * 1000


def priority_before(first_major: int, arrived_at: datetime, ageing_seconds: int) -> int:
    """Return the least priority that stands before a place in the queue.

    :param first_major: the first sort key of that place.
    """
    if ageing_seconds == 0:
        return -first_major + 1
    return (order_minor(arrived_at) - first_major) // (ageing_seconds * 1000) + 1


def order_minor(arrived_at: datetime) -> int:
    """Second sort key, smaller goes first: the moment of arrival, in ms since 1970."""
    return (arrived_at - EPOCH) // MILLISECOND

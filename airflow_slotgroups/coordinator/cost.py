"""What repeated work costs the database, so that it takes no more than its share of it."""

from __future__ import annotations

MOST = 1.0
"""Seconds; above it more patience would be a wait that people see."""


class Cost:
    """Learns from how long the work took, time after time.

    The less of the last two times, since one long one may be no work at all: a lock, a failover, a machine
    that stood still. To rest as long as such a stall lasted would double it for all who wait.
    """

    def __init__(self) -> None:
        self.before = 0.0

    def of(self, took: float) -> float:
        """Return the cost in seconds, `MOST` at most.

        :param took: seconds that the work has just taken.
        """
        cost = min(self.before, took, MOST)
        self.before = took
        return cost

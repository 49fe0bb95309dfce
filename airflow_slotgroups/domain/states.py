"""The states and kinds that tables, API and CLI share. The state graph is drawn in ARCHITECTURE.md."""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):
    """A value that is stored and printed as its own word."""

    def __str__(self) -> str:
        return str(self.value)


class RequestState(Word):
    """Where a request stands. `waiting` and `granted` are live, the other two are final."""

    WAITING = "waiting"
    """The task instance is scheduled in the closed pool and holds nothing."""
    GRANTED = "granted"
    """Let in: its slots are in use until that try of the task ends."""
    RELEASED = "released"
    """It was granted, and its try has ended: the slots are free again."""
    CANCELLED = "cancelled"
    """It ended without ever having been granted."""


class Kind(Word):
    """What holds the slots."""

    TASK = "task"
    SECTION = "section"


class Admission(Word):
    """How a granted request came in; all but `queue` can bring a group over its size."""

    QUEUE = "queue"
    """In its turn."""
    FORCED = "forced"
    """By hand, past the queue and the capacity."""
    OUTSIDE = "outside"
    """It ran without asking: a DAG names the running pool, the pool was opened by hand, a retry was too fast."""
    ADOPTED = "adopted"
    """It ran in the pool when that was adopted."""


class Mode(Word):
    """Whether a group lets waiters in."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Nobody is let in; holders finish; size and order are kept."""
    BYPASS = "bypass"
    """The limit is lifted: everybody is let in."""
    DISSOLVING = "dissolving"
    """The pool is an ordinary one again; the last tasks are on their way home."""


class Strategy(Word):
    """What happens behind a head that does not fit (DESIGN rule 5)."""

    STRICT = "strict"
    """Freed slots are kept for the head of the queue."""
    BACKFILL = "backfill"
    """Smaller requests may pass the head, a bounded number of times."""


class EndReason(Word):
    """Why a request ended."""

    ENDED = "ended"
    """The try ended: success, failure, skip, retry, reschedule."""
    CLEARED = "cleared"
    """The task instance was cleared, or became another try."""
    GONE = "gone"
    """The task instance was deleted."""
    LEFT = "left"
    """The task instance waits no longer, or in another pool."""
    EXPIRED = "expired"
    """It waited as long as its task allows (max_wait)."""
    DISSOLVED = "dissolved"
    """The group was dissolved."""

"""A clock that moves when it is told to."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone


class FakeClock:
    """Tells a moment of its own; tests move it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Go back to the first moment."""
        self.now = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float = 0.01) -> datetime:
        """Move on."""
        self.now += timedelta(seconds=seconds)
        return self.now

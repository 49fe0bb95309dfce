"""The one clock; tests pass another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

Clock = Callable[[], datetime]


def utcnow() -> datetime:
    """Return the moment, aware, in UTC."""
    return datetime.now(timezone.utc)

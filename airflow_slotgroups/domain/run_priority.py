"""The priority that a run asks for, by `conf["slot_priority"]` (DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

KEY = "slot_priority"


@dataclass(frozen=True)
class RunPriority:
    """What a run asks for.

    :param priority: None leaves each task its own.
    :param notice: why a value was ignored.
    """

    priority: int | None = None
    notice: str | None = None


def run_priority(conf: Mapping[str, Any] | None) -> RunPriority:
    """Read the priority from a run's conf; a bad value is ignored, and said."""
    value = conf.get(KEY) if isinstance(conf, Mapping) else None
    if value is None:
        return RunPriority()
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        # Shortened: whoever triggers a run may write any amount there.
        return RunPriority(notice=f"conf['{KEY}'] is {short(value)}, no whole number of 32 bits: ignored")
    return RunPriority(priority=value)

"""What the slots in use of a group are in use for."""

from __future__ import annotations

from airflow_slotgroups.domain.states import Admission, Kind, Word


class Share(Word):
    """One part of a group's use."""

    RUNNING = "running"
    QUEUED = "queued"
    STARTING = "starting"
    """Granted, and not yet queued by the scheduler."""
    DEFERRED = "deferred"
    """Parked by the task itself, and holding."""
    SECTIONS = "sections"
    OUTSIDE = "outside"
    """Runs outside the queue."""


BY_STATE = {"running": Share.RUNNING, "restarting": Share.RUNNING, "queued": Share.QUEUED}
PARKED = frozenset({"deferred", "awaiting_input"})


def share_of(kind: str, admission: str | None, ti_state: str | None) -> Share:
    """Tell which part of the use a granted request belongs to."""
    if kind == Kind.SECTION.value:
        return Share.SECTIONS
    if admission == Admission.OUTSIDE.value:
        return Share.OUTSIDE
    if ti_state in PARKED:
        return Share.DEFERRED
    return BY_STATE.get(ti_state or "", Share.STARTING)

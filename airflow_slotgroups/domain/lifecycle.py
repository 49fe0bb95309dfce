"""What becomes of a holder, from what its task instance says now (DESIGN section 2, step 5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_slotgroups.domain.states import EndReason, Word


class Fate(Word):
    """What a look at a holder finds."""

    KEEP = "keep"
    STARTED = "started"
    """It was queued for the first time since the grant."""
    IDLE = "idle"
    """It was let in, and the scheduler has done nothing with it so far."""
    END = "end"


@dataclass(frozen=True)
class Holder:
    """A granted request beside its task instance; the `ti_` values are None when that is gone.

    :param was_queued: the grant is known to have come to something.
    :param scheduled_at: scheduled_dttm, and
    :param queued_at: queued_dttm of the task instance as they were at the grant.
    """

    try_number: int
    was_queued: bool
    scheduled_at: datetime | None
    queued_at: datetime | None
    ti_exists: bool
    ti_state: str | None = None
    ti_try_number: int | None = None
    ti_next_method: str | None = None
    ti_scheduled_at: datetime | None = None
    ti_queued_at: datetime | None = None


HELD_STATES = frozenset({"scheduled", "queued", "running", "restarting", "deferred", "awaiting_input"})


def fate_of(holder: Holder) -> tuple[Fate, EndReason | None]:
    """Tell what becomes of a holder, and why if it ends.

    A task instance that is scheduled again with the same try number, after it ran and without a method to
    go on with, comes a second time: a sensor in reschedule mode. One that was stuck in queued is set back to
    scheduled with its queued_dttm erased, and keeps its slot (S29).
    """
    if not holder.ti_exists:
        return Fate.END, EndReason.GONE
    if holder.ti_try_number != holder.try_number:
        return Fate.END, EndReason.CLEARED
    if holder.ti_state not in HELD_STATES:
        return Fate.END, EndReason.CLEARED if holder.ti_state is None else EndReason.ENDED
    if comes_again(holder):
        return Fate.END, EndReason.ENDED
    if holder.was_queued:
        return Fate.KEEP, None
    return (Fate.IDLE if is_idle(holder) else Fate.STARTED), None


def comes_again(holder: Holder) -> bool:
    """Tell whether the same try was scheduled anew after it ran."""
    return (
        holder.ti_state == "scheduled"
        and not holder.ti_next_method
        and holder.ti_queued_at is not None
        and holder.ti_scheduled_at != holder.scheduled_at
    )


def is_idle(holder: Holder) -> bool:
    """Tell whether nothing has happened to the task instance since the grant."""
    return (
        holder.ti_state == "scheduled"
        and not holder.ti_next_method
        and holder.ti_queued_at == holder.queued_at
    )


@dataclass(frozen=True)
class Hold:
    """The hold of a section beside its run.

    :param run_state: None when the run is gone.
    :param acquire_moved: the acquire waits anew, for slots of another pool.
    :param release_state: state of the task that ends it; None also when there is none.
    :param goes_on: some task of the run, other than releases, is unfinished.
    :param executes: some task of the run executes.
    """

    run_state: str | None
    acquire_exists: bool
    acquire_state: str | None
    release_state: str | None
    goes_on: bool
    acquire_moved: bool = False
    executes: bool = False


FINISHED_STATES = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
FINISHED_RUN_STATES = frozenset({"success", "failed"})


def fate_of_hold(hold: Hold) -> EndReason | None:
    """Tell why a hold ends, or None while its section goes on (rule 12)."""
    if hold.run_state is None or not hold.acquire_exists:
        return EndReason.GONE
    # A release that an edit of the DAG has removed ends nothing: the section's tasks may still run.
    if hold.run_state in FINISHED_RUN_STATES or hold.release_state in FINISHED_STATES - {"removed"}:
        return EndReason.ENDED
    # Airflow removes even an acquire that has succeeded, when the DAG has no task of that name any more. Its
    # section's tasks may execute still; but a renamed acquire must not wait for the hold of the old one.
    if hold.acquire_state == "removed" and hold.executes:
        return None
    if hold.acquire_moved or hold.acquire_state in FINISHED_STATES - {"success"}:
        return EndReason.CLEARED
    return None if hold.goes_on else EndReason.ENDED

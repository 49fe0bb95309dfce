"""What becomes of a holder (DESIGN section 2, step 5)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_slotgroups.domain.lifecycle import HELD_STATES, Fate, Holder, fate_of
from airflow_slotgroups.domain.states import EndReason

BEFORE = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
LATER = BEFORE + timedelta(minutes=1)

GRANTED = Holder(
    try_number=1,
    was_queued=False,
    scheduled_at=BEFORE,
    queued_at=None,
    ti_exists=True,
    ti_state="scheduled",
    ti_try_number=1,
    ti_scheduled_at=BEFORE,
)
"""Let in a moment ago: nothing has happened to it."""
QUEUED = replace(GRANTED, ti_state="queued", ti_queued_at=LATER)
RUNNING = replace(QUEUED, ti_state="running", was_queued=True)

KEPT = (Fate.KEEP, None)
STARTED = (Fate.STARTED, None)
IDLE = (Fate.IDLE, None)

FATES = {
    "let in, and the scheduler has not looked at it": (GRANTED, IDLE),
    "queued for the first time": (QUEUED, STARTED),
    "running for the first time": (replace(QUEUED, ti_state="running"), STARTED),
    "running, as seen before": (RUNNING, KEPT),
    "queued, as seen before": (replace(RUNNING, ti_state="queued"), KEPT),
    "restarting": (replace(RUNNING, ti_state="restarting"), KEPT),
    "deferred on its own account (S34)": (replace(RUNNING, ti_state="deferred"), KEPT),
    "waiting for a human": (replace(RUNNING, ti_state="awaiting_input"), KEPT),
    "scheduled after its own deferral (S35)": (
        replace(RUNNING, ti_state="scheduled", ti_next_method="execute_complete", ti_scheduled_at=LATER),
        KEPT,
    ),
    "so fast that it was never seen before its own deferral": (
        replace(QUEUED, ti_state="scheduled", ti_next_method="execute_complete", ti_scheduled_at=LATER),
        STARTED,
    ),
    "stuck in queued and set back to scheduled (S29)": (
        replace(RUNNING, ti_state="scheduled", ti_scheduled_at=LATER, ti_queued_at=None),
        KEPT,
    ),
    "set back before it was ever seen queued": (
        replace(QUEUED, ti_state="scheduled", ti_scheduled_at=LATER, ti_queued_at=None),
        IDLE,
    ),
    "requeued by the executor of a dead scheduler, with its old moment": (
        replace(RUNNING, ti_state="scheduled"),
        KEPT,
    ),
    "a sensor that was rescheduled and comes again (S32)": (
        replace(RUNNING, ti_state="scheduled", ti_scheduled_at=LATER),
        (Fate.END, EndReason.ENDED),
    ),
    "a sensor let in for its second coming is idle, whatever the first left behind": (
        replace(GRANTED, queued_at=LATER, ti_queued_at=LATER),
        IDLE,
    ),
    "a sensor queued for its second coming": (
        replace(GRANTED, queued_at=BEFORE, ti_state="queued", ti_queued_at=LATER),
        STARTED,
    ),
    "success": (replace(RUNNING, ti_state="success"), (Fate.END, EndReason.ENDED)),
    "failed": (replace(RUNNING, ti_state="failed"), (Fate.END, EndReason.ENDED)),
    "skipped": (replace(RUNNING, ti_state="skipped"), (Fate.END, EndReason.ENDED)),
    "removed from its DAG": (replace(RUNNING, ti_state="removed"), (Fate.END, EndReason.ENDED)),
    "upstream failed": (replace(GRANTED, ti_state="upstream_failed"), (Fate.END, EndReason.ENDED)),
    "waiting for its retry (S33)": (replace(RUNNING, ti_state="up_for_retry"), (Fate.END, EndReason.ENDED)),
    "between two looks of a sensor (S32)": (
        replace(RUNNING, ti_state="up_for_reschedule"),
        (Fate.END, EndReason.ENDED),
    ),
    "cleared (S26)": (replace(RUNNING, ti_state=None), (Fate.END, EndReason.CLEARED)),
    "on its next try, which runs already": (
        replace(RUNNING, ti_try_number=2),
        (Fate.END, EndReason.CLEARED),
    ),
    "deleted with its run (S26)": (
        Holder(try_number=1, was_queued=True, scheduled_at=BEFORE, queued_at=None, ti_exists=False),
        (Fate.END, EndReason.GONE),
    ),
}


@pytest.mark.parametrize(
    ("holder", "fate"), [pytest.param(*row, id=sentence) for sentence, row in FATES.items()]
)
def test_fate(holder: Holder, fate: tuple[Fate, EndReason | None]) -> None:
    assert fate_of(holder) == fate


@pytest.mark.parametrize("state", sorted(HELD_STATES))
def test_no_state_of_a_try_that_goes_on_ends_it(state: str) -> None:
    assert fate_of(replace(RUNNING, ti_state=state, ti_next_method="resume"))[0] is not Fate.END

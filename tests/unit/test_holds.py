"""What becomes of the hold of a section (DESIGN rule 12, S51)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_slotgroups.domain.lifecycle import FINISHED_STATES, Hold, fate_of_hold
from airflow_slotgroups.domain.states import EndReason

RUNNING = Hold(
    run_state="running", acquire_exists=True, acquire_state="success", release_state=None, goes_on=True
)
"""Acquired, and its tasks run."""
MARKED_FAILED = replace(RUNNING, release_state="scheduled", goes_on=False)
"""Nothing but the release is left to do; in a paused DAG it never runs."""

FATES: dict[str, tuple[Hold, EndReason | None]] = {
    "its tasks run": (RUNNING, None),
    "it has no release: the run's end ends it": (replace(RUNNING, release_state=None), None),
    "its release waits for them": (replace(RUNNING, release_state="scheduled"), None),
    "its release has ended": (replace(RUNNING, release_state="success"), EndReason.ENDED),
    "its release was marked failed": (replace(RUNNING, release_state="failed"), EndReason.ENDED),
    "its release was skipped": (replace(RUNNING, release_state="skipped"), EndReason.ENDED),
    "its release can not run any more": (
        replace(RUNNING, release_state="upstream_failed"),
        EndReason.ENDED,
    ),
    "its map index is no longer there": (
        replace(RUNNING, acquire_state="removed", release_state="removed"),
        EndReason.CLEARED,
    ),
    "an edit of the DAG has removed its release, its tasks still run": (
        replace(RUNNING, release_state="removed", goes_on=True),
        None,
    ),
    "an edit of the DAG has removed its release, and nothing is left to do": (
        replace(RUNNING, release_state="removed", goes_on=False),
        EndReason.ENDED,
    ),
    "its release has ended, other tasks of the run go on": (
        replace(RUNNING, release_state="success", goes_on=True),
        EndReason.ENDED,
    ),
    "the run has succeeded": (replace(RUNNING, run_state="success"), EndReason.ENDED),
    "the run has failed, tasks of it still end": (replace(RUNNING, run_state="failed"), EndReason.ENDED),
    "the run was cleared and waits to be started": (replace(RUNNING, run_state="queued"), None),
    "the run is gone": (replace(RUNNING, run_state=None, acquire_exists=False), EndReason.GONE),
    "the run is gone, its tasks not yet": (replace(RUNNING, run_state=None), EndReason.GONE),
    "the acquire is gone": (replace(RUNNING, acquire_exists=False, acquire_state=None), EndReason.GONE),
    "an inner task was cleared, and with it the acquire": (replace(RUNNING, acquire_state=None), None),
    "the cleared acquire is scheduled": (replace(RUNNING, acquire_state="scheduled"), None),
    "the cleared acquire waits again, and will find its hold": (
        replace(RUNNING, acquire_state="deferred"),
        None,
    ),
    "the cleared acquire waits for its retry": (replace(RUNNING, acquire_state="up_for_retry"), None),
    "the new try of the acquire has failed": (replace(RUNNING, acquire_state="failed"), EndReason.CLEARED),
    "the new try of the acquire was skipped": (replace(RUNNING, acquire_state="skipped"), EndReason.CLEARED),
    "the acquire's upstream failed when it was cleared": (
        replace(RUNNING, acquire_state="upstream_failed"),
        EndReason.CLEARED,
    ),
    "nothing is left but the release": (MARKED_FAILED, EndReason.ENDED),
    "nothing is left at all": (replace(MARKED_FAILED, release_state=None), EndReason.ENDED),
}


@pytest.mark.parametrize(
    ("hold", "fate"), [pytest.param(*row, id=sentence) for sentence, row in FATES.items()]
)
def test_fate_of_hold(hold: Hold, fate: EndReason | None) -> None:
    assert fate_of_hold(hold) == fate


@pytest.mark.parametrize("state", sorted(FINISHED_STATES - {"removed"}))
def test_a_release_that_is_over_ends_it_in_whatever_way(state: str) -> None:
    assert fate_of_hold(replace(RUNNING, release_state=state)) is EndReason.ENDED


@pytest.mark.parametrize(
    "state", ["scheduled", "queued", "running", "restarting", "deferred", "up_for_retry"]
)
def test_a_release_that_is_not_over_does_not(state: str) -> None:
    assert fate_of_hold(replace(RUNNING, release_state=state)) is None

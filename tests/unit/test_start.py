"""Starting a coordinator beside a scheduler, and again when it dies."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from airflow.jobs.job import Job

from airflow_slotgroups.listeners import start
from airflow_slotgroups.listeners.start import (
    HEALTHY_AFTER,
    LONGEST_PAUSE,
    CoordinatorKeeper,
    SchedulerWatch,
    StartListener,
)

JOB_ID = 7


class Clock:
    """The monotonic clock of the module under test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(start, "time", clock)
    return clock


@pytest.fixture
def popen(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    """Stands for the process, which lives until it is told to `die`."""
    popen = mock.Mock()
    popen.return_value.pid = 4711
    popen.return_value.poll.return_value = None
    monkeypatch.setattr(start, "subprocess", SimpleNamespace(Popen=popen, DEVNULL=subprocess.DEVNULL))
    return popen


@pytest.fixture
def keeper(clock: Clock, popen: mock.Mock) -> CoordinatorKeeper:
    keeper = CoordinatorKeeper(JOB_ID)
    keeper.start()
    return keeper


def die(popen: mock.Mock, code: int = 1) -> None:
    popen.return_value.poll.return_value = popen.return_value.returncode = code


# The keeper


def test_the_process_is_apart_and_knows_its_parent(keeper: CoordinatorKeeper, popen: mock.Mock) -> None:
    [command], settings = popen.call_args

    assert command[:3] == [sys.executable, "-m", "airflow_slotgroups.coordinator"]
    assert command[3:] == ["--scheduler-job-id", "7", "--parent-pid", str(os.getpid())]
    assert settings["start_new_session"] is True
    assert settings["stdin"] == subprocess.DEVNULL
    assert settings["env"]["_AIRFLOW_PROCESS_CONTEXT"] == "server"


def test_one_that_lives_is_left_alone(keeper: CoordinatorKeeper, popen: mock.Mock, clock: Clock) -> None:
    clock.now += 10_000
    keeper.look_after()

    assert popen.call_count == 1


def test_one_that_died_is_started_again_and_said_so(
    keeper: CoordinatorKeeper, popen: mock.Mock, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    die(popen, code=-9)
    clock.now += HEALTHY_AFTER + 1
    keeper.look_after()

    assert popen.call_count == 2
    assert caplog.messages == ["The slot groups coordinator does not run (exit code -9); starting it again"]


def seconds_until_started_again(
    keeper: CoordinatorKeeper, popen: mock.Mock, clock: Clock, heartbeat: float
) -> float:
    """Look after it at every heartbeat until it has been started once more."""
    before, since = popen.call_count, clock.now
    while popen.call_count == before:
        clock.now += heartbeat
        keeper.look_after()
    return clock.now - since


def test_the_pause_grows_while_it_dies_soon_after_its_start(
    keeper: CoordinatorKeeper, popen: mock.Mock, clock: Clock
) -> None:
    die(popen)
    pauses = [seconds_until_started_again(keeper, popen, clock, heartbeat=1) for _ in range(8)]

    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    assert keeper.pause == LONGEST_PAUSE


def test_the_pause_is_short_again_when_it_lived_long(
    keeper: CoordinatorKeeper, popen: mock.Mock, clock: Clock
) -> None:
    die(popen)
    for _ in range(8):
        seconds_until_started_again(keeper, popen, clock, heartbeat=1)
    popen.return_value.poll.return_value = None
    clock.now += HEALTHY_AFTER + 1
    keeper.look_after()
    die(popen)
    starts = popen.call_count
    keeper.look_after()

    assert popen.call_count == starts + 1
    assert seconds_until_started_again(keeper, popen, clock, heartbeat=1) == 2


def test_a_forked_process_never_starts_another(
    keeper: CoordinatorKeeper, popen: mock.Mock, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    die(popen)
    clock.now += 1000
    forked = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: forked)
    keeper.look_after()

    assert popen.call_count == 1
    popen.return_value.poll.assert_not_called()


def test_one_that_could_not_be_started_is_tried_again(popen: mock.Mock, clock: Clock) -> None:
    keeper = CoordinatorKeeper(JOB_ID)
    popen.side_effect = OSError("no more processes")
    with pytest.raises(OSError, match="no more processes"):
        keeper.start()
    popen.side_effect = None

    assert seconds_until_started_again(keeper, popen, clock, heartbeat=5) == 5
    assert keeper.is_alive()


def test_a_death_is_logged_once_however_long_the_pause(
    keeper: CoordinatorKeeper, popen: mock.Mock, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    die(popen)
    for _ in range(5):
        seconds_until_started_again(keeper, popen, clock, heartbeat=1)

    assert len(caplog.messages) == 5


def test_the_time_dead_is_not_taken_for_a_long_life(
    keeper: CoordinatorKeeper, popen: mock.Mock, clock: Clock
) -> None:
    die(popen)
    pauses = [seconds_until_started_again(keeper, popen, clock, heartbeat=5) for _ in range(8)]

    assert pauses == [5, 5, 10, 20, 35, 60, 60, 60]


# The watch


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> SchedulerWatch:
    configure(monkeypatch, "scheduler")
    return SchedulerWatch()


def job(job_type: str = "SchedulerJob", job_id: int = JOB_ID) -> Any:
    return SimpleNamespace(job_type=job_type, id=job_id)


def configure(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("AIRFLOW__SLOTGROUPS__COORDINATOR", place)


def test_a_scheduler_gets_a_coordinator(watch: SchedulerWatch, popen: mock.Mock) -> None:
    watch.inserted(None, None, job())

    popen.assert_called_once()


@pytest.mark.parametrize("job_type", ["TriggererJob", "DagProcessorJob", "LocalTaskJob", None])
def test_no_other_job_gets_one(watch: SchedulerWatch, popen: mock.Mock, job_type: Any) -> None:
    watch.inserted(None, None, job(job_type))

    popen.assert_not_called()


@pytest.mark.parametrize("place", ["external", "off", "OFF"])
def test_it_is_started_only_where_it_is_configured_to_run(
    watch: SchedulerWatch, popen: mock.Mock, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    configure(monkeypatch, place)
    watch.inserted(None, None, job())
    watch.updated(None, None, job())

    popen.assert_not_called()


def test_a_second_scheduler_job_of_the_process_starts_no_second_one(
    watch: SchedulerWatch, popen: mock.Mock
) -> None:
    watch.inserted(None, None, job(job_id=1))
    watch.inserted(None, None, job(job_id=2))

    popen.assert_called_once()


def test_the_schedulers_heartbeat_is_the_moment_to_look(
    watch: SchedulerWatch, popen: mock.Mock, clock: Clock
) -> None:
    watch.inserted(None, None, job())
    die(popen)
    clock.now += 1000
    watch.updated(None, None, job(job_id=JOB_ID + 1))
    assert popen.call_count == 1
    watch.updated(None, None, job())
    assert popen.call_count == 2


@pytest.mark.parametrize(
    "fault", [OSError("no more processes"), MemoryError(), RuntimeError("x")], ids=lambda fault: repr(fault)
)
def test_no_fault_of_ours_stops_a_scheduler(
    watch: SchedulerWatch, popen: mock.Mock, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    popen.side_effect = fault
    watch.inserted(None, None, job())
    watch.updated(None, None, job())

    assert "could not be started; slot groups are not served" in caplog.text


def test_a_wrong_setting_is_logged_and_no_more(
    watch: SchedulerWatch,
    popen: mock.Mock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    configure(monkeypatch, "everywhere")
    watch.inserted(None, None, job())

    popen.assert_not_called()
    assert "[slotgroups] coordinator can not be 'everywhere'" in caplog.text


# The listener


def test_jobs_are_listened_to_once(popen: mock.Mock) -> None:
    listener = StartListener()
    with mock.patch("sqlalchemy.event.listen") as listen:
        listener.on_starting(Job.__new__(Job))
        listener.on_starting(Job.__new__(Job))

    watch = listener.watch
    assert listen.call_args_list == [
        mock.call(Job, "after_insert", watch.inserted),
        mock.call(Job, "after_update", watch.updated),
    ]


def test_what_is_no_job_is_not_listened_to(popen: mock.Mock) -> None:
    """`on_starting` also fires in task processes, with a component of another kind."""
    listener = StartListener()
    listener.on_starting(SimpleNamespace(job_type="SchedulerJob"))

    assert not listener.watch.listening


def test_a_task_process_does_not_load_the_job_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "airflow.jobs.job")
    listener = StartListener()
    listener.on_starting(SimpleNamespace())

    assert "airflow.jobs.job" not in sys.modules
    assert not listener.watch.listening


@pytest.fixture(autouse=True)
def _log_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="airflow_slotgroups")

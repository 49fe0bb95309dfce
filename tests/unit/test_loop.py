"""The loop around the cycle: pauses, back-off, what it logs, and how it ends."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest import mock

import pytest
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session

from airflow_slotgroups.coordinator import loop as loop_module
from airflow_slotgroups.coordinator import sweep as sweep_module
from airflow_slotgroups.coordinator.cost import MOST
from airflow_slotgroups.coordinator.cycle import CycleResult
from airflow_slotgroups.coordinator.loop import LONGEST_PAUSE, Loop, first_line
from airflow_slotgroups.coordinator.sweep import INTERVAL, Heartbeat, Sweep
from airflow_slotgroups.domain.errors import TablesMissingError
from airflow_slotgroups.store.coordinators import DEAD_AFTER

BUSY, IDLE = 0.1, 0.5
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


class Clock:
    """The monotonic clock of the modules under test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(loop_module, "time", clock)
    monkeypatch.setattr(sweep_module, "time", clock)
    return clock


@pytest.fixture
def loop(clock: Clock) -> Any:
    """A loop whose cycle finds nothing to do; mocks stand for its parts."""
    cycle = mock.Mock()
    cycle.run.return_value = CycleResult()
    beside = [mock.Mock() for _ in range(4)]
    return Loop(cycle, *beside, busy=timedelta(seconds=BUSY), idle=timedelta(seconds=IDLE))


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger="airflow_slotgroups")
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in log.records]


def locked() -> DBAPIError:
    return OperationalError("UPDATE slot_group", {}, sqlite3.OperationalError("database is locked"))


def fail(loop: Any, error: Exception) -> None:
    loop.cycle.run.side_effect = error


def recover(loop: Any) -> None:
    loop.cycle.run.side_effect = None


def result_of(loop: Any, result: CycleResult) -> None:
    loop.cycle.run.return_value = result


# Pauses


@pytest.mark.parametrize(("busy", "pause"), [(True, BUSY), (False, IDLE)])
def test_the_pause_is_short_while_a_slot_may_become_free(loop: Any, busy: bool, pause: float) -> None:
    result_of(loop, CycleResult(busy=busy))

    assert loop.one_round() == pause


def takes(loop: Any, clock: Clock, seconds: float) -> float:
    """Run a thorough cycle that takes so long; the seconds until the next one of that kind."""

    def run(**_how: bool) -> CycleResult:
        clock.now += seconds
        return CycleResult(busy=True)

    loop.thorough_at = clock.now
    with mock.patch.object(loop.cycle, "run", run):
        pause = loop.one_round()
    return float(max(pause, loop.thorough_at - clock.now))


def test_slow_cycles_have_a_quarter_of_the_time_and_never_rest_long(loop: Any, clock: Clock) -> None:
    takes(loop, clock, 0.4)
    assert takes(loop, clock, 0.5) == pytest.approx(0.4 / 0.25 - 0.5)
    takes(loop, clock, 30)
    assert takes(loop, clock, 30) == pytest.approx(MOST)


def test_urgent_cycles_rest_as_long_as_they_take(loop: Any, clock: Clock) -> None:
    def run(**_how: bool) -> CycleResult:
        clock.now += 0.3
        return CycleResult(busy=True)

    loop.thorough_at = clock.now + 3600
    with mock.patch.object(loop.cycle, "run", run):
        loop.one_round()
        assert loop.one_round() == pytest.approx(0.3)


@pytest.mark.parametrize("thorough", [True, False])
def test_a_stall_of_the_database_is_not_doubled(loop: Any, clock: Clock, thorough: bool) -> None:
    """A cycle that stood still for a while is no slow cycle: whoever has waited is let in at once."""
    takes(loop, clock, 0.01)
    loop.thorough_at = clock.now + (0 if thorough else 3600)

    def run(**_how: bool) -> CycleResult:
        clock.now += 8
        return CycleResult(busy=True)

    with mock.patch.object(loop.cycle, "run", run):
        assert loop.one_round() <= BUSY
    assert not thorough or loop.thorough_at <= clock.now


def test_the_time_from_cycle_to_cycle_includes_the_cycle(loop: Any, clock: Clock) -> None:
    def run(**_how: bool) -> CycleResult:
        clock.now += 0.04
        return CycleResult(busy=True)

    with mock.patch.object(loop.cycle, "run", run):
        assert loop.one_round() == pytest.approx(BUSY - 0.04)


@pytest.mark.parametrize(("took", "thorough_ones"), [(0.0, [0, 5, 10]), (0.2, [0, 4, 9])])
def test_a_busy_loop_is_thorough_every_half_second_or_a_quarter_of_the_time(
    loop: Any, clock: Clock, took: float, thorough_ones: list[int]
) -> None:
    how: list[bool] = []

    def run(*, thorough: bool) -> CycleResult:
        clock.now += took if thorough else 0
        how.append(thorough)
        return CycleResult(busy=True)

    with mock.patch.object(loop.cycle, "run", run):
        for _ in range(12):
            pause = loop.one_round()
            clock.now += pause + 1e-6

    assert [number for number, thorough in enumerate(how) if thorough] == thorough_ones


def test_a_round_sweeps_and_reports(loop: Any) -> None:
    result_of(loop, CycleResult(errors={"a": "ValueError: x", "b": "KeyError: 'y'"}))
    loop.one_round()

    assert mock.call.run_if_due() in loop.sweep.mock_calls
    loop.heartbeat.cycle_ended.assert_called_once_with(0.0, "'a': ValueError: x; 'b': KeyError: 'y'")


def test_what_a_thorough_cycle_found_wrong_is_wrong_until_the_next_one(loop: Any, clock: Clock) -> None:
    """Rule 13: a step that urgent cycles leave out must not seem to be well."""
    said = []
    for errors in ({"fail_them": "ValueError: x"}, {}, {"P": "KeyError: 'y'"}):
        result_of(loop, CycleResult(busy=True, errors=errors))
        loop.one_round()
        said.append(loop.heartbeat.cycle_ended.call_args.args[1])
    clock.now += 1
    result_of(loop, CycleResult(busy=True))
    loop.one_round()
    said.append(loop.heartbeat.cycle_ended.call_args.args[1])

    lasting = "'fail_them': ValueError: x"
    assert said == [lasting, lasting, f"{lasting}; 'P': KeyError: 'y'", None]


def test_a_round_that_went_well_reports_no_error(loop: Any) -> None:
    loop.one_round()

    loop.heartbeat.cycle_ended.assert_called_once_with(0.0, None)


# Back-off


def test_the_pause_grows_with_every_failure_up_to_a_bound(loop: Any) -> None:
    fail(loop, RuntimeError("x"))
    pauses = [loop.one_round() for _ in range(20)]

    assert pauses[:6] == [0.5, 1, 2, 4, 8, LONGEST_PAUSE]
    assert set(pauses[6:]) == {LONGEST_PAUSE}
    assert timedelta(seconds=LONGEST_PAUSE) < DEAD_AFTER


def test_a_failed_cycle_is_reported_so_that_check_names_it(loop: Any) -> None:
    fail(loop, RuntimeError("the disk is full"))
    loop.one_round()

    seconds, error = loop.heartbeat.cycle_ended.call_args.args
    assert seconds >= 0
    assert error == "RuntimeError: the disk is full"


def test_a_failure_that_can_not_be_reported_changes_no_pause(loop: Any) -> None:
    fail(loop, RuntimeError("x"))
    loop.heartbeat.cycle_ended.side_effect = RuntimeError("the database is gone")

    assert loop.one_round() == 0.5


def test_the_pause_is_short_again_after_a_cycle_that_went_well(loop: Any) -> None:
    fail(loop, RuntimeError("x"))
    for _ in range(5):
        loop.one_round()
    recover(loop)
    loop.one_round()
    fail(loop, RuntimeError("x"))

    assert loop.one_round() == 0.5


def test_a_failure_is_logged_once_in_full_and_then_in_short(loop: Any, log: pytest.LogCaptureFixture) -> None:
    fail(loop, RuntimeError("first line\nsecond line"))
    for _ in range(3):
        loop.one_round()

    assert lines(log) == [
        ("ERROR", "Slot groups: a cycle failed and is tried again"),
        ("ERROR", "Slot groups are not served, 2 cycles failed: RuntimeError: first line"),
        ("ERROR", "Slot groups are not served, 3 cycles failed: RuntimeError: first line"),
    ]
    assert [record.exc_info is not None for record in log.records] == [True, False, False]


def test_a_locked_database_is_no_news_at_first(loop: Any, log: pytest.LogCaptureFixture) -> None:
    fail(loop, locked())
    pauses = [loop.one_round() for _ in range(3)]

    assert [level for level, _ in lines(log)] == ["DEBUG", "DEBUG", "ERROR"]
    assert "3 cycles failed: OperationalError: (sqlite3.OperationalError)" in log.text
    assert pauses == [0.5, 1, 2]


def test_an_error_for_people_is_one_line_without_a_traceback(
    loop: Any, log: pytest.LogCaptureFixture
) -> None:
    fail(loop, TablesMissingError(None, "0001"))
    loop.one_round()

    assert lines(log) == [
        (
            "ERROR",
            "Slot groups are not served: the tables of slot groups are missing; run 'airflow db migrate'",
        )
    ]
    assert not log.records[0].exc_info


def test_recovery_is_logged_once(loop: Any, log: pytest.LogCaptureFixture) -> None:
    fail(loop, locked())
    loop.one_round()
    loop.one_round()
    recover(loop)
    loop.one_round()
    loop.one_round()

    said = [line for line in lines(log) if line[0] == "INFO"]
    assert said == [("INFO", "Slot groups are served again after 2 failed cycles")]


@pytest.mark.parametrize("part", ["sweep", "heartbeat"])
def test_a_fault_beside_the_cycle_is_a_failure_too(loop: Any, part: str) -> None:
    method = {"sweep": "run_if_due", "heartbeat": "cycle_ended"}[part]
    getattr(getattr(loop, part), method).side_effect = RuntimeError("x")

    assert loop.one_round() == 0.5
    assert loop.failures == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("a\nb"), "ValueError: a"),
        (ValueError(), "ValueError: "),
        (ValueError("\n\n a"), "ValueError: a"),
    ],
)
def test_first_line(error: Exception, line: str) -> None:
    assert first_line(error) == line


# The end


def test_it_ends_after_the_cycle_that_runs(loop: Any) -> None:
    def run(**_how: bool) -> CycleResult:
        loop.stop()
        return CycleResult()

    with mock.patch.object(loop.cycle, "run", side_effect=run) as cycle:
        loop.run()

    cycle.assert_called_once()
    loop.heartbeat.cycle_ended.assert_called_once()


def test_it_does_nothing_when_it_was_stopped_before(loop: Any) -> None:
    loop.stop()
    loop.run()

    loop.cycle.run.assert_not_called()


def test_stopping_cuts_a_pause_short(loop: Any) -> None:
    """The longest pause would outlast the test."""
    loop.idle = 3600
    in_cycle = threading.Event()

    def run(**_how: bool) -> CycleResult:
        in_cycle.set()
        return CycleResult()

    with mock.patch.object(loop.cycle, "run", run):
        thread = threading.Thread(target=loop.run, daemon=True)
        thread.start()
        assert in_cycle.wait(10)
        loop.stop()
        thread.join(10)

    assert not thread.is_alive()


# Heartbeat and sweep


@contextmanager
def no_session() -> Iterator[Session]:
    yield mock.Mock()


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    """Stands for the write to the database."""
    report = mock.Mock()
    monkeypatch.setattr(sweep_module, "report", report)
    return report


@pytest.fixture
def heartbeat(clock: Clock, report: mock.Mock) -> Heartbeat:
    return Heartbeat(no_session, mock.sentinel.who, clock=lambda: NOON)


def reports(report: mock.Mock) -> list[dict[str, Any]]:
    return [dict(call.kwargs) for call in report.call_args_list]


def test_the_first_cycle_is_reported_at_once(heartbeat: Heartbeat, report: mock.Mock) -> None:
    heartbeat.cycle_ended(0.25, None)

    assert reports(report) == [{"last_cycle_at": NOON, "cycle_seconds": 0.25, "error": None}]


def test_a_heartbeat_is_written_once_in_two_seconds(
    heartbeat: Heartbeat, clock: Clock, report: mock.Mock
) -> None:
    for _ in range(100):
        heartbeat.cycle_ended(0.01, None)
        clock.now += 0.1

    assert len(reports(report)) == 100 * 0.1 / INTERVAL


def test_a_heartbeat_is_written_at_once_when_something_else_is_wrong(
    heartbeat: Heartbeat, report: mock.Mock
) -> None:
    for error in (None, "slot group 'a': x", "slot group 'a': x", None):
        heartbeat.cycle_ended(0.01, error)

    assert [one["error"] for one in reports(report)] == [None, "slot group 'a': x", None]


def test_a_failed_cycle_is_not_the_last_good_one(
    heartbeat: Heartbeat, clock: Clock, report: mock.Mock
) -> None:
    heartbeat.cycle_ended(0.01, "slot group 'a': x")
    clock.now += INTERVAL
    heartbeat.cycle_ended(0.01, None)

    assert [one["last_cycle_at"] for one in reports(report)] == [None, NOON]
    assert [one["error"] for one in reports(report)] == ["slot group 'a': x", None]


@pytest.fixture
def sweep(clock: Clock) -> Any:
    sweep: Any = Sweep(no_session, mock.Mock())
    sweep.run = mock.Mock(return_value=False)
    return sweep


def sweeps(sweep: Any) -> int:
    return int(sweep.run.call_count)


def test_a_sweep_comes_once_in_its_interval(sweep: Any, clock: Clock) -> None:
    for _ in range(100):
        sweep.run_if_due()
        clock.now += 0.1

    assert sweeps(sweep) == 100 * 0.1 / INTERVAL


def test_a_sweep_that_left_something_comes_again_at_once(sweep: Any) -> None:
    sweep.run.return_value = True
    for _ in range(5):
        sweep.run_if_due()

    assert sweeps(sweep) == 5


def test_a_slow_sweep_takes_a_small_share_of_the_time(sweep: Any, clock: Clock) -> None:
    def slow() -> bool:
        clock.now += 1
        return False

    sweep.run.side_effect = slow
    started = clock.now
    while clock.now < started + 100:
        sweep.run_if_due()
        clock.now += 0.1

    # The first one is taken for a stall; from the second on it is known to be slow.
    assert sweeps(sweep) == 6

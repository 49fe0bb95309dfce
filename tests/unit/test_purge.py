"""When old requests are purged, and that no failure of it reaches the loop."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from airflow_slotgroups.coordinator import purge as purge_module
from airflow_slotgroups.coordinator.purge import INTERVAL, PAUSE, SHARE, Purge


class Clock:
    """The monotonic clock of the module under test."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@contextmanager
def no_session() -> Iterator[Session]:
    yield mock.Mock()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(purge_module, "time", clock)
    return clock


@pytest.fixture
def purge(clock: Clock) -> Any:
    purge: Any = Purge(no_session, timedelta(days=30))
    purge.run = mock.Mock(return_value=False)
    return purge


def runs_in(purge: Any, clock: Clock, seconds: float) -> int:
    """Offer it the time ten times a second."""
    until = clock.now + seconds
    while clock.now < until:
        purge.run_if_due()
        clock.now += 0.1
    return int(purge.run.call_count)


def test_it_comes_once_a_minute(purge: Any, clock: Clock) -> None:
    assert runs_in(purge, clock, 10 * INTERVAL - 1) == 10


def test_while_there_is_much_it_comes_more_often(purge: Any, clock: Clock) -> None:
    purge.run.return_value = True

    assert runs_in(purge, clock, 10) == pytest.approx(10 / PAUSE, abs=4)


def test_a_slow_one_takes_a_small_share_of_the_time(purge: Any, clock: Clock) -> None:
    def slow() -> bool:
        clock.now += 1
        return True

    purge.run.side_effect = slow

    # The first one is taken for a stall.
    assert runs_in(purge, clock, 100) == 100 * SHARE + 1


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (OperationalError("DELETE", {}, sqlite3.OperationalError("database is locked")), []),
        (
            OperationalError("DELETE", {}, sqlite3.OperationalError("disk full")),
            ["Old requests could not be purged"],
        ),
        (ValueError("x"), ["Old requests could not be purged"]),
    ],
)
def test_a_failure_is_no_more_than_a_line_in_the_log(
    purge: Any, clock: Clock, caplog: pytest.LogCaptureFixture, error: Exception, lines: list[str]
) -> None:
    caplog.set_level(logging.DEBUG, logger="airflow_slotgroups")
    purge.run.side_effect = error
    purge.run_if_due()

    assert [record.getMessage() for record in caplog.records] == lines
    assert purge.due_at == clock.now + INTERVAL

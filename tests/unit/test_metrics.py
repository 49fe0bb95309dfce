"""Metrics by Airflow's own stats, with a backend that remembers; and what happens when it fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from airflow._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.observability import stats
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core import metrics as core
from airflow_slotgroups.coordinator import metrics as metrics_module
from airflow_slotgroups.coordinator.metrics import INTERVAL, Event, Metrics, What


class Backend:
    """What Airflow would send away."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any, Any]] = []

    def incr(self, stat: str, count: int = 1, *, tags: Any = None) -> None:
        self.sent.append(("counter", stat, count, tags))

    def gauge(self, stat: str, value: float, *, tags: Any = None) -> None:
        self.sent.append(("gauge", stat, value, tags))

    def timing(self, stat: str, dt: timedelta, *, tags: Any = None) -> None:
        self.sent.append(("timer", stat, dt, tags))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    monkeypatch.setenv("AIRFLOW__METRICS__LEGACY_NAMES_ON", "False")
    backend = Backend()
    stats.initialize(factory=lambda: backend, export_legacy_names=False)
    yield backend
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)


@contextmanager
def no_session() -> Iterator[Session]:
    yield mock.Mock()


class Clock:
    """The monotonic clock of the module under test."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(metrics_module, "time", clock)
    return clock


@pytest.fixture
def metrics(clock: Clock) -> Any:
    """Without a database: the gauges are not read."""
    metrics: Any = Metrics(no_session)
    metrics.send_gauges = mock.Mock()
    return metrics


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("pool", "tag"),
    [("wh", "wh"), ("ware house", "ware_house"), ("a.b", "a.b"), ("a/b", "a_b"), ("münchen", "m_nchen")],
)
def test_the_tag_is_made_safe_as_airflow_does_for_pools(backend: Backend, pool: str, tag: str) -> None:
    core.gauge("waiting", 3, pool)

    assert backend.sent == [("gauge", "slotgroups.waiting", 3, {"pool_name": tag})]


def test_statsd_without_tags_gets_a_name_for_each_group(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__LEGACY_NAMES_ON", "True")
    core.count("grants", 2, "a.b c")

    assert backend.sent == [
        ("counter", "slotgroups.grants", 2, {"pool_name": "a.b_c"}),
        ("counter", "slotgroups.grants.a__b_c", 2, None),
    ]


def test_what_a_cycle_did_is_sent(backend: Backend, metrics: Any) -> None:
    events = [
        Event(What.GRANTS, "wh", seconds(5)),
        Event(What.GRANTS, "wh", seconds(7)),
        Event(What.GRANTS, "x", seconds(1)),
        Event(What.RELEASES, "wh", seconds(60)),
        Event(What.DISCOVERIES, "wh"),
        Event(What.PUT_BACKS, "wh"),
    ]
    metrics.cycle_ended(0.25, events)

    wh, x = {"pool_name": "wh"}, {"pool_name": "x"}
    assert backend.sent == [
        ("timer", "slotgroups.cycle", seconds(0.25), None),
        ("counter", "slotgroups.grants", 2, wh),
        ("counter", "slotgroups.grants", 1, x),
        ("counter", "slotgroups.releases", 1, wh),
        ("counter", "slotgroups.discoveries", 1, wh),
        ("counter", "slotgroups.put_backs", 1, wh),
        ("timer", "slotgroups.wait", seconds(5), wh),
        ("timer", "slotgroups.wait", seconds(7), wh),
        ("timer", "slotgroups.wait", seconds(1), x),
        ("timer", "slotgroups.hold", seconds(60), wh),
    ]


def test_gauges_are_read_on_an_interval_of_their_own(backend: Backend, metrics: Any, clock: Clock) -> None:
    for _ in range(500):
        metrics.cycle_ended(0.01, [])
        clock.now += 0.1

    assert metrics.send_gauges.call_count == 500 * 0.1 / INTERVAL


def test_what_fails_is_logged_once_and_raises_nothing(
    backend: Backend, metrics: Any, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="airflow_slotgroups")
    metrics.send_gauges.side_effect = RuntimeError("the database is gone")
    for _ in range(3):
        clock.now += INTERVAL
        metrics.cycle_ended(0.01, [])

    assert [record.getMessage() for record in caplog.records] == ["No metrics are sent"]
    assert metrics.send_gauges.call_count == 3


def test_metrics_go_where_airflow_sends_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    initialize = mock.Mock()
    monkeypatch.setattr(core.stats, "initialize", initialize)
    core.send_metrics_as_configured()

    factory = initialize.call_args.kwargs["factory"]
    assert isinstance(factory(), NoStatsLogger)

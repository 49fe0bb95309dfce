"""Our section of Airflow's configuration."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_slotgroups.airflow_core import config
from airflow_slotgroups.airflow_core.config import CoordinatorPlace, coordinator_place
from airflow_slotgroups.domain.errors import InvalidValueError
from airflow_slotgroups.provider import options

SECONDS = {
    "busy_interval_seconds": config.busy_interval,
    "idle_interval_seconds": config.idle_interval,
    "lease_seconds": config.lease,
}


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in options():
        monkeypatch.delenv(f"AIRFLOW__SLOTGROUPS__{option.upper()}", raising=False)


def configure(monkeypatch: pytest.MonkeyPatch, option: str, value: str) -> None:
    monkeypatch.setenv(f"AIRFLOW__SLOTGROUPS__{option.upper()}", value)


def test_a_coordinator_runs_beside_every_scheduler_by_default() -> None:
    assert coordinator_place() is CoordinatorPlace.SCHEDULER


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("external", CoordinatorPlace.EXTERNAL),
        ("off", CoordinatorPlace.OFF),
        (" Scheduler ", CoordinatorPlace.SCHEDULER),
    ],
)
def test_where_coordinators_run(monkeypatch: pytest.MonkeyPatch, value: str, place: CoordinatorPlace) -> None:
    configure(monkeypatch, "coordinator", value)

    assert coordinator_place() is place


def test_another_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, "coordinator", "triggerer")
    with pytest.raises(InvalidValueError) as caught:
        coordinator_place()

    assert str(caught.value) == (
        "[slotgroups] coordinator can not be 'triggerer';"
        " set it to one of scheduler, external, off in airflow.cfg"
    )


@pytest.mark.parametrize(("option", "read"), SECONDS.items())
def test_the_default_is_the_one_that_airflow_lists(option: str, read: Any) -> None:
    assert read() == timedelta(seconds=float(options()[option]["default"]))


@pytest.mark.parametrize(("option", "read"), SECONDS.items())
def test_seconds_are_read(monkeypatch: pytest.MonkeyPatch, option: str, read: Any) -> None:
    configure(monkeypatch, option, "0.25")

    assert read() == timedelta(milliseconds=250)


@pytest.mark.parametrize(("option", "read"), SECONDS.items())
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon"])
def test_what_is_no_time_is_refused(
    monkeypatch: pytest.MonkeyPatch, option: str, read: Any, value: str
) -> None:
    configure(monkeypatch, option, value)
    with pytest.raises(InvalidValueError) as caught:
        read()

    assert str(caught.value).startswith(f"[slotgroups] {option} can not be ")
    assert caught.value.remedy == "set a number of seconds above 0 in airflow.cfg"


def test_how_long_ended_requests_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.history_retention() == timedelta(days=float(options()["history_retention_days"]["default"]))

    configure(monkeypatch, "history_retention_days", "0.5")
    assert config.history_retention() == timedelta(hours=12)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "36501", "soon"])
def test_what_is_no_retention_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    configure(monkeypatch, "history_retention_days", value)
    with pytest.raises(InvalidValueError) as caught:
        config.history_retention()

    assert str(caught.value) == (
        f"[slotgroups] history_retention_days can not be '{value}';"
        " set a number of days above 0, and at most 36500, in airflow.cfg"
    )


def test_every_option_says_what_it_is_for() -> None:
    for name, option in options().items():
        assert option["description"].endswith("."), name
        assert option["default"] is not None, name

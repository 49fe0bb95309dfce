"""Our section of Airflow's configuration; the options are declared in `provider.py`."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum

from airflow.configuration import conf

from airflow_slotgroups.domain.errors import InvalidValueError

SECTION = "slotgroups"
MOST_DAYS = 36_500


class CoordinatorPlace(str, Enum):
    """Where coordinators run."""

    SCHEDULER = "scheduler"
    """Beside every scheduler, started by it."""
    EXTERNAL = "external"
    """By themselves, with `airflow slotgroups coordinator`."""
    OFF = "off"
    """Nowhere: waiters wait."""


def coordinator_place() -> CoordinatorPlace:
    """Return where coordinators run.

    :raises InvalidValueError: the option has another value.
    """
    value = conf.get(SECTION, "coordinator", fallback=CoordinatorPlace.SCHEDULER.value).strip().lower()
    try:
        return CoordinatorPlace(value)
    except ValueError:
        allowed = ", ".join(place.value for place in CoordinatorPlace)
        raise InvalidValueError(
            f"[{SECTION}] coordinator", value, f"set it to one of {allowed} in airflow.cfg"
        ) from None


def busy_interval() -> timedelta:
    """Return the time from cycle to cycle while a group has both waiters and holders."""
    return positive_seconds("busy_interval_seconds", 0.1)


def idle_interval() -> timedelta:
    """Return the time from cycle to cycle else."""
    return positive_seconds("idle_interval_seconds", 0.5)


def lease() -> timedelta:
    """Return how long a grant may stay unused before it is taken back (DESIGN rule 6)."""
    return positive_seconds("lease_seconds", 60.0)


def fab_view() -> bool:
    """Return whether there is a view for Flask-AppBuilder too."""
    return conf.getboolean(SECTION, "fab_view", fallback=False)


def history_retention() -> timedelta:
    """Return how long ended requests and changes of groups are kept.

    :raises InvalidValueError: it is no number, not above 0, or above a hundred years.
    """
    value = conf.get(SECTION, "history_retention_days", fallback="30")
    try:
        days = above_0(float(value))
    except ValueError:
        days = MOST_DAYS + 1
    if not days <= MOST_DAYS:
        raise InvalidValueError(
            f"[{SECTION}] history_retention_days",
            value,
            f"set a number of days above 0, and at most {MOST_DAYS}, in airflow.cfg",
        )
    return timedelta(days=days)


def allow_run_priority() -> bool:
    """Tell whether a run may override the priority of its tasks by `conf["slot_priority"]`."""
    return bool(conf.getboolean(SECTION, "allow_run_priority", fallback=False))


def positive_seconds(option: str, default: float) -> timedelta:
    """Read an option in seconds.

    :raises InvalidValueError: it is no number, or not above 0.
    """
    value = conf.get(SECTION, option, fallback=str(default))
    try:
        return timedelta(seconds=above_0(float(value)))
    except (ValueError, OverflowError):
        raise InvalidValueError(
            f"[{SECTION}] {option}", value, "set a number of seconds above 0 in airflow.cfg"
        ) from None


def above_0(number: float) -> float:
    """Return the number.

    :raises ValueError: it is not above 0.
    """
    if number <= 0:
        raise ValueError(number)
    return number

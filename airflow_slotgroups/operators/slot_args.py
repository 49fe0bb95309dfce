"""Arguments that make a task ask a slot group for slots."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow_slotgroups.domain.errors import InvalidValueError
from airflow_slotgroups.domain.names import (
    EXECUTOR_CONFIG_KEY,
    LONGEST_WAIT_DAYS,
    MAX_WAIT_KEY,
    check_group_name,
)


def slot_args(
    pool: str,
    *,
    slots: int = 1,
    priority: int | None = None,
    max_wait: timedelta | None = None,
    executor_config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return operator arguments, for an operator, `partial()`, `@task(...)` or default_args.

    :param pool: the slot group.
    :param slots: how many of its slots one task takes, at least 1.
    :param priority: bigger goes first; None leaves it to the task's priority_weight and weight_rule.
    :param max_wait: the task fails, with its retries and callbacks, when one try has waited that long since it
        was enqueued, time in a paused group or DAG included; None waits for ever.
    :param executor_config: what you would give the operator by that name; `max_wait` is carried in it.
    :raises InvalidNameError, InvalidValueError: when the DAG is parsed, with the value and the remedy.
    """
    arguments: dict[str, Any] = {"pool": check_pool(pool), "pool_slots": check_slots(slots)}
    if priority is not None:
        arguments |= {"priority_weight": check_priority(priority), "weight_rule": "absolute"}
    if max_wait is not None or executor_config is not None:
        arguments["executor_config"] = with_max_wait(executor_config, max_wait)
    return arguments


def check_pool(pool: str) -> str:
    """Refuse what can not be a group's name."""
    if not isinstance(pool, str):
        raise InvalidValueError("pool", pool, "give the name of a slot group, a string")
    return check_group_name(pool)


def check_slots(slots: int) -> int:
    """Refuse a number of slots that no task can take."""
    if not is_whole(slots) or slots < 1:
        raise InvalidValueError("slots", slots, "give a whole number from 1 up")
    return slots


def check_priority(priority: int) -> int:
    """Refuse a priority that Airflow can not store."""
    if not is_whole(priority) or not -(2**31) <= priority < 2**31:
        raise InvalidValueError("priority", priority, "give a whole number of 32 bits; bigger goes first")
    return priority


def check_max_wait(max_wait: timedelta) -> timedelta:
    """Refuse a time that can not be waited."""
    if not isinstance(max_wait, timedelta) or max_wait < timedelta(0):
        raise InvalidValueError("max_wait", max_wait, "give a timedelta that is not negative")
    if max_wait > timedelta(days=LONGEST_WAIT_DAYS):
        raise InvalidValueError(
            "max_wait", max_wait, f"give at most {LONGEST_WAIT_DAYS} days, or leave it out"
        )
    return max_wait


def is_whole(value: object) -> bool:
    """Tell an integer; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def with_max_wait(given: Mapping[str, Any] | None, max_wait: timedelta | None) -> dict[str, Any]:
    """Merge max_wait into an executor_config; executors ignore a key that they do not know."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidValueError("executor_config", given, "give a dict, as to the operator itself")
    merged = dict(given or {})
    if EXECUTOR_CONFIG_KEY in merged:
        raise InvalidValueError(
            "executor_config",
            given,
            f"leave out the key '{EXECUTOR_CONFIG_KEY}', which slot_args writes itself",
        )
    if max_wait is not None:
        merged[EXECUTOR_CONFIG_KEY] = {MAX_WAIT_KEY: check_max_wait(max_wait).total_seconds()}
    return merged

"""The priority that a run asks for by its conf (DESIGN section 5, S09)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

import pytest

from airflow_slotgroups.domain.order import order_major
from airflow_slotgroups.domain.run_priority import RunPriority, run_priority
from airflow_slotgroups.store.discovery import Arrival, request_row

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)

LARGEST = 2**31 - 1


@pytest.mark.parametrize(
    "conf", [None, {}, {"slot_priority": None}, {"Slot_Priority": 3}, [], "slot_priority"]
)
def test_a_run_that_asks_for_nothing(conf: Any) -> None:
    assert run_priority(conf) == RunPriority()


@pytest.mark.parametrize("value", [0, 1, -7, LARGEST, -LARGEST - 1])
def test_a_whole_number_is_taken(value: int) -> None:
    assert run_priority({"slot_priority": value, "other": "thing"}) == RunPriority(priority=value)


@pytest.mark.parametrize("value", ["10", 1.0, True, LARGEST + 1, -LARGEST - 2, [1], {"a": 1}, ""])
def test_anything_else_is_ignored_and_said(value: object) -> None:
    assert run_priority({"slot_priority": value}) == RunPriority(
        notice=f"conf['slot_priority'] is {value!r}, no whole number of 32 bits: ignored"
    )


def test_a_large_value_is_not_written_out() -> None:
    notice = run_priority({"slot_priority": "9" * 10_000}).notice

    assert notice is not None
    assert len(notice) < 250


def row(conf: Mapping[str, Any] | None, own: RunPriority) -> dict[str, Any]:
    arrival = Arrival(
        uuid4(), "task", "warehouse", "nightly", "r", "load", -1, 1, 1, 3, NOW, conf, None, None, None
    )
    return request_row(arrival, own, 0, NOW)


def test_a_request_has_the_priority_of_its_run_and_is_sorted_by_it() -> None:
    found = row({"slot_priority": 50}, run_priority({"slot_priority": 50}))

    assert found["priority"] == 50
    assert found["order_major"] == order_major(50, NOW, 0)
    assert found["notice"] is None


def test_a_request_of_a_run_with_a_bad_value_keeps_its_own_and_says_so() -> None:
    found = row({"slot_priority": "x"}, run_priority({"slot_priority": "x"}))

    assert found["priority"] == 3
    assert found["notice"] == "conf['slot_priority'] is 'x', no whole number of 32 bits: ignored"


def test_priority_zero_is_a_priority() -> None:
    assert row({"slot_priority": 0}, run_priority({"slot_priority": 0}))["priority"] == 0

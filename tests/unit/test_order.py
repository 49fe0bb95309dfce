"""The order of a queue as two numbers (DESIGN rule 4)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_slotgroups.domain.order import FORCED_MAJOR, MAX_AGEING_SECONDS, order_major, order_minor

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
NO_AGEING = 0
TEN_MINUTES = 600

INT32 = st.integers(-(2**31), 2**31 - 1)
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(timezone.utc))  # noqa: DTZ001
AGEINGS = st.integers(0, MAX_AGEING_SECONDS)


def place(priority: int, minutes: float, ageing: int = NO_AGEING, *, forced: bool = False) -> tuple[int, int]:
    """The sort key of a request that arrived so many minutes after noon."""
    arrived_at = NOON + timedelta(minutes=minutes)
    return order_major(priority, arrived_at, ageing, forced=forced), order_minor(arrived_at)


# Each: the place that comes first, the place that comes after.
FIRST_AND_SECOND = {
    "the higher priority first": (place(5, 10), place(4, 0)),
    "negative priorities are lower than none": (place(0, 10), place(-1, 0)),
    "of equal priority the one that came first": (place(5, 0), place(5, 0.001)),
    "without ageing an hour of waiting is worth nothing (S08)": (place(5, 60), place(1, 0)),
    "with 600 s a point an hour is worth more than four points (S08)": (
        place(1, 0, TEN_MINUTES),
        place(5, 60, TEN_MINUTES),
    ),
    "with ageing the priority still counts": (place(5, 39, TEN_MINUTES), place(1, 0, TEN_MINUTES)),
    "at equal age and points the one that came first": (
        place(1, 0, TEN_MINUTES),
        place(5, 40, TEN_MINUTES),
    ),
    "a forced one before every priority": (place(-5, 60, forced=True), place(2**31 - 1, 0)),
    "a forced one before every priority, aged": (
        place(-5, 60, TEN_MINUTES, forced=True),
        place(2**31 - 1, 0, MAX_AGEING_SECONDS),
    ),
    "of two forced ones the one that came first": (place(0, 0, forced=True), place(9, 1, forced=True)),
}


@pytest.mark.parametrize(
    ("first", "second"), [pytest.param(*places, id=sentence) for sentence, places in FIRST_AND_SECOND.items()]
)
def test_order(first: tuple[int, int], second: tuple[int, int]) -> None:
    assert first < second


def test_two_hundred_equals_go_by_arrival_in_every_pass() -> None:
    arrivals = [place(1, number) for number in range(200)]

    assert sorted(set(arrivals)) == arrivals


@given(INT32, MOMENTS, AGEINGS)
def test_no_priority_however_aged_overflows_or_reaches_a_forced_one(
    priority: int, arrived_at: datetime, ageing: int
) -> None:
    major = order_major(priority, arrived_at, ageing)

    assert FORCED_MAJOR < major < 2**63
    assert -(2**63) <= order_minor(arrived_at) < 2**63


@given(INT32, INT32, MOMENTS, AGEINGS)
def test_of_one_moment_the_higher_priority_is_never_behind(
    one: int, other: int, arrived_at: datetime, ageing: int
) -> None:
    first, second = max(one, other), min(one, other)

    assert order_major(first, arrived_at, ageing) <= order_major(second, arrived_at, ageing)


def test_the_moment_is_that_of_the_clock_wherever_it_hangs() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=9)))

    assert order_minor(there) == order_minor(NOON) == 1_767_268_800_000

"""Waiting and holding times, use and size over time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_slotgroups.domain.history import Bucket, Past, SizeChange, Span, Spread, spread, summarize

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
SPAN = Span(NOON, NOON + timedelta(hours=4), 4)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def past(
    granted: float, ended: float | None, slots: int = 1, waited: float = 0, admission: str = "queue"
) -> Past:
    """A request; all in minutes since noon."""
    end = None if ended is None else at(ended)
    return Past(slots, admission, at(granted - waited), at(granted), end)


def look(*requests: Past, changes: tuple[SizeChange, ...] = ()) -> list[Bucket]:
    return summarize(SPAN, requests, changes)


def test_a_span_is_cut_into_equal_buckets() -> None:
    assert [(b.start, b.end) for b in look()] == [(at(n * 60), at(n * 60 + 60)) for n in range(4)]


def test_nothing_has_been() -> None:
    assert {(b.granted, b.wait, b.hold, b.most_used, b.size) for b in look()} == {
        (0, Spread(), Spread(), 0, None)
    }


def test_a_request_counts_where_it_was_granted_and_where_it_ended() -> None:
    buckets = look(past(30, 100, waited=20))

    assert [b.granted for b in buckets] == [1, 0, 0, 0]
    assert [b.wait.median for b in buckets] == [timedelta(minutes=20), None, None, None]
    assert [b.hold.median for b in buckets] == [None, timedelta(minutes=70), None, None]


@pytest.mark.parametrize("admission", ["outside", "adopted"])
def test_who_never_stood_in_the_queue_has_not_waited(admission: str) -> None:
    first = look(past(30, 40, waited=20, admission=admission))[0]

    assert (first.granted, first.wait) == (1, Spread())
    assert first.hold.median == timedelta(minutes=10)


USE = {
    "it holds from the grant to the end": ([past(10, 130)], [1, 1, 1, 0]),
    "it began before": ([past(-500, 70)], [1, 1, 0, 0]),
    "it goes on": ([past(-500, None)], [1, 1, 1, 1]),
    "it ended before the span, and is none of it": ([past(-500, 0)], [0, 0, 0, 0]),
    "two at one time": ([past(10, 50, 2), past(40, 55, 3)], [5, 0, 0, 0]),
    "two after each other": ([past(10, 20, 2), past(30, 40, 3)], [3, 0, 0, 0]),
    "slots that go from one to the next at one moment count once": (
        [past(10, 20), past(20, 30), past(30, 40)],
        [1, 0, 0, 0],
    ),
    "an end on the edge is none of the next bucket": ([past(10, 60), past(60, 70)], [1, 1, 0, 0]),
    "the highest use, not the last": ([past(0, 30, 7), past(40, None, 1)], [7, 1, 1, 1]),
    "granted at the very end": ([past(240, None)], [0, 0, 0, 0]),
}


@pytest.mark.parametrize(
    ("requests", "most"), [pytest.param(*row, id=sentence) for sentence, row in USE.items()]
)
def test_the_most_slots_in_use(requests: list[Past], most: list[int]) -> None:
    assert [b.most_used for b in look(*requests)] == most


WAITING = {
    "from arrival to grant": ([past(130, 200, waited=100)], [1, 1, 1, 0]),
    "how many, and not how wide": ([past(30, 40, 7, waited=10), past(30, 40, 7, waited=10)], [2, 0, 0, 0]),
    "it still waits": ([Past(1, None, at(70), None, None)], [0, 1, 1, 1]),
    "it was cancelled": ([Past(1, None, at(10), None, at(70))], [1, 1, 0, 0]),
    "it never stood in the queue": ([past(130, 200, waited=100, admission="outside")], [0, 0, 0, 0]),
}


@pytest.mark.parametrize(
    ("requests", "most"), [pytest.param(*row, id=sentence) for sentence, row in WAITING.items()]
)
def test_the_most_that_waited(requests: list[Past], most: list[int]) -> None:
    buckets = look(*requests)

    assert [b.most_waiting for b in buckets] == most
    assert sum(b.granted for b in buckets) == sum(r.granted_at is not None for r in requests)


def test_the_size_is_that_at_the_end_of_a_bucket() -> None:
    changes = (
        SizeChange(at(-60), 3, "active"),
        SizeChange(at(90), 5, "active"),
        SizeChange(at(100), 6, "paused"),
        SizeChange(at(130), 6, "bypass"),
        SizeChange(at(200), 6, "dissolving"),
    )

    assert [b.size for b in look(changes=changes)] == [3, 6, -1, None]


def test_there_was_no_group_at_first() -> None:
    assert [b.size for b in look(changes=(SizeChange(at(61), 3, "active"),))] == [None, 3, 3, 3]


@pytest.mark.parametrize(
    ("minutes", "median", "p95"),
    [
        ([5], 5, 5),
        ([1, 2], 1, 2),
        ([3, 1, 2], 2, 3),
        (list(range(1, 101)), 50, 95),
        ([*[1] * 19, 100], 1, 1),
        ([*[1] * 18, 100, 100], 1, 100),
        ([-1], 0, 0),
    ],
)
def test_median_and_95th_percentile(minutes: list[int], median: int, p95: int) -> None:
    found = spread(timedelta(minutes=one) for one in minutes)

    assert found == Spread(timedelta(minutes=median), timedelta(minutes=p95))


REQUESTS = st.builds(
    lambda granted, length, slots: past(granted, None if length is None else granted + length, slots),
    st.integers(-100, 300),
    st.one_of(st.none(), st.integers(0, 300)),
    st.integers(1, 4),
)


@given(st.lists(REQUESTS, max_size=12))
def test_the_sweep_agrees_with_looking_at_every_minute(requests: list[Past]) -> None:
    buckets = look(*requests)

    def use(minute: int) -> int:
        moment = at(minute)
        return sum(
            r.slots
            for r in requests
            if r.granted_at is not None
            and r.granted_at <= moment
            and (r.ended_at is None or moment < r.ended_at)
        )

    assert [b.most_used for b in buckets] == [max(use(n * 60 + m) for m in range(60)) for n in range(4)]
    assert sum(b.granted for b in buckets) == sum(
        r.granted_at is not None and at(0) <= r.granted_at < at(240) for r in requests
    )

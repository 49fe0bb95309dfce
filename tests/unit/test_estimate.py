"""The estimate of a start: a pure function of holders, queue and hold times."""

from __future__ import annotations

import pytest

from airflow_slotgroups.domain.estimate import Estimate, Samples, Standing, estimates
from airflow_slotgroups.domain.snapshot import TaskKey

A, B = TaskKey("dag", "a"), TaskKey("dag", "b")


def samples(*seconds: float, task: TaskKey = A) -> Samples:
    """Hold times of one task."""
    return Samples.of((task, one) for one in seconds)


def test_below_five_samples_nothing_is_said() -> None:
    """Not even of one that could start now."""
    assert estimates(1, [], [Standing(1, A, 1)], samples(10, 10, 10, 10)) == {}


def test_who_fits_starts_now_and_the_next_when_a_holder_ends() -> None:
    """One slot, held for 4 of 10 seconds."""
    queue = [Standing(1, A, 1), Standing(2, A, 1)]
    found = estimates(1, [Standing(9, A, 1, held=4)], queue, samples(*[10] * 5))
    assert found == {1: Estimate(6, 6), 2: Estimate(16, 16)}


def test_the_range_goes_by_short_and_long_holds() -> None:
    """The 10th and the 90th percentile, by nearest rank."""
    found = estimates(1, [Standing(9, A, 1)], [Standing(1, A, 1)], samples(*range(1, 11)))
    assert found == {1: Estimate(1, 9)}


def test_a_task_with_too_few_samples_goes_by_the_group() -> None:
    """And one with enough by its own."""
    mixed = Samples.of([(A, 100.0)] * 5 + [(B, 1.0)] * 4)
    assert estimates(1, [Standing(9, A, 1)], [Standing(1, A, 1)], mixed)[1].latest_seconds == 100
    by_group = estimates(1, [Standing(9, B, 1)], [Standing(1, A, 1)], mixed)[1]
    assert by_group == Estimate(1, 100)


def test_a_holder_that_is_late_may_end_at_any_moment() -> None:
    """Never in the past."""
    found = estimates(1, [Standing(9, A, 1, held=1000)], [Standing(1, A, 1)], samples(*[10] * 5))
    assert found == {1: Estimate(0, 0)}


def test_a_wide_one_waits_for_all_its_slots_and_those_behind_for_it() -> None:
    """Slots are kept for the head."""
    holders = [Standing(8, A, 1, held=9), Standing(9, A, 1, held=2)]
    queue = [Standing(1, A, 2), Standing(2, A, 1), Standing(3, A, 1)]
    found = estimates(2, holders, queue, samples(*[10] * 5))
    assert [found[number].earliest_seconds for number in (1, 2, 3)] == [8, 18, 18]


def test_one_wider_than_the_group_never_starts_and_is_in_nobodys_way() -> None:
    """Nothing is said of it."""
    found = estimates(2, [], [Standing(1, A, 3), Standing(2, A, 1)], samples(*[10] * 5))
    assert found == {2: Estimate(0, 0)}


def test_an_overdraft_is_paid_back_first() -> None:
    """Three slots in use of one: two must end."""
    holders = [Standing(number, A, 1, held=number) for number in (1, 2, 3)]
    found = estimates(1, holders, [Standing(9, A, 1)], samples(*[10] * 5))
    assert found == {9: Estimate(9, 9)}


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_long_queue_is_no_work(size: int) -> None:
    """Ten thousand waiters: each starts no earlier than the one before."""
    queue = [Standing(number, A, 1) for number in range(10_000)]
    found = estimates(size, [], queue, samples(*range(10)))
    starts = [found[number].latest_seconds for number in sorted(found)]
    assert starts == sorted(starts)
    assert len(found) == (10_000 if size else 0)

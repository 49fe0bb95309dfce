"""The demo's judgement: order and capacity."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from devtools.demo_summary import (
    Execution,
    Grant,
    Section,
    cycles,
    expiry_faults,
    inversions,
    most_used,
    section_faults,
    summarize,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def grant(task: str, priority: int, enqueued: float, granted: float, group: str = "g") -> Grant:
    return Grant(group, task, priority, at(enqueued), at(enqueued), at(granted))


def execution(start: float, end: float, slots: int = 1, group: str = "g") -> Execution:
    return Execution(group, slots, at(start), at(end))


@pytest.mark.parametrize(
    ("grants", "expected"),
    [
        pytest.param([grant("high", 2, 0, 1), grant("low", 1, 0, 2)], [], id="in order"),
        pytest.param(
            [grant("low", 1, 0, 1), grant("high", 2, 0, 2)], [("high", "low")], id="lower one first"
        ),
        pytest.param([grant("low", 1, 0, 1), grant("high", 2, 0, 1)], [], id="one cycle has no order"),
        pytest.param(
            [grant("low", 1, 0, 1), grant("high", 2, 1.5, 2)], [], id="the higher one came too late"
        ),
        pytest.param(
            [grant("low", 1, 0, 1), grant("high", 2, 1, 2)],
            [("high", "low")],
            id="seen in the very cycle that let the lower one in",
        ),
        pytest.param(
            [grant("second", 1, 0.5, 1), grant("first", 1, 0, 2)],
            [("first", "second")],
            id="equals go by arrival",
        ),
        pytest.param(
            [grant("low", 1, 0, 1, group="a"), grant("high", 2, 0, 2, group="b")], [], id="groups are apart"
        ),
    ],
)
def test_inversions(grants: list[Grant], expected: list[tuple[str, str]]) -> None:
    assert [(late.task, early.task) for late, early in inversions(grants)] == expected


@pytest.mark.parametrize(
    ("executions", "expected"),
    [
        pytest.param([], 0, id="nothing ran"),
        pytest.param([execution(0, 2), execution(1, 3)], 2, id="overlap"),
        pytest.param([execution(0, 1), execution(1, 2)], 1, id="one after the other on one slot"),
        pytest.param([execution(0, 3, 2), execution(1, 2, 3), execution(5, 6)], 5, id="weighted with slots"),
    ],
)
def test_most_used(executions: list[Execution], expected: int) -> None:
    assert most_used(executions) == expected


def test_cycles_are_in_order_of_time_and_of_the_queue() -> None:
    grants = [grant("3", 3, 0, 2), grant("4", 4, 0, 1), grant("6", 6, 0, 1), grant("5", 5, 0, 1)]

    assert [[one.task for one in cycle] for cycle in cycles(grants)] == [["6", "5", "4"], ["3"]]


def test_a_good_group_has_no_faults() -> None:
    summary = summarize(
        "g", 1, [grant("a", 2, 0, 1), grant("b", 1, 0, 4)], [execution(1, 2), execution(4, 5)]
    )

    assert summary.faults == []
    assert summary.median_wait == timedelta(seconds=2.5)
    assert summary.longest_wait == timedelta(seconds=4)


def test_faults_name_the_tasks_and_the_numbers() -> None:
    grants = [grant("low", 1, 0, 1), grant("high", 2, 0, 3)]

    order, capacity = summarize("g", 1, grants, [execution(0, 2), execution(1, 2)]).faults

    assert order.startswith("g: high (priority 2) was let in 2.0 s after low (priority 1)")
    assert capacity == "g: 2 slots were in use, 1 is its size"


def test_a_queue_that_let_nobody_in_is_a_fault() -> None:
    assert summarize("g", 1, [], [execution(0, 1)]).faults == ["g: its queue let nobody in"]


def section(name: str, start: float, end: float, group: str = "g") -> Section:
    return Section(group, name, at(start), at(end))


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        pytest.param([section("a", 0, 2), section("b", 2, 3)], [], id="one after the other"),
        pytest.param([section("a", 0, 2), section("b", 1, 3, "h")], [], id="groups are apart"),
        pytest.param(
            [section("a", 0, 2), section("b", 1, 3)], ["g: b began before a had ended"], id="interleaved"
        ),
        pytest.param([], ["no section held slots"], id="none at all"),
    ],
)
def test_sections_must_not_meet(sections: list[Section], expected: list[str]) -> None:
    assert section_faults(sections) == expected


@pytest.mark.parametrize(
    ("expired", "found"), [(["a"], None), ([], "none"), (["b"], "b"), (["a", "b"], "a, b")]
)
def test_one_task_is_expected_to_wait_too_long(expired: list[str], found: str | None) -> None:
    faults = [f"a alone was to fail by its max_wait; failed: {found}"] if found else []

    assert expiry_faults(expired, "a") == faults

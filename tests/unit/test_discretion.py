"""Sentences without the names that a reader may not hear."""

from __future__ import annotations

import pytest

from airflow_slotgroups.domain.discretion import everything, listed, told

MAY_SEE = {"mine"}.__contains__
TASKS = [("mine", "a"), ("other", "b"), ("mine", "c")]


def test_a_sentence_that_names_nobody_is_told_to_all() -> None:
    assert told("the group is paused", None, None, MAY_SEE) == "the group is paused"


@pytest.mark.parametrize(("dag_id", "heard"), [("mine", "named"), ("other", "unnamed"), (None, "unnamed")])
def test_a_name_is_told_to_those_who_may_see_it(dag_id: str | None, heard: str) -> None:
    """One that may name any DAG is told to nobody."""
    assert told("named", "unnamed", dag_id, MAY_SEE) == heard


def test_some_are_named_and_the_rest_are_counted() -> None:
    assert listed(TASKS, 3, everything) == "mine.a, other.b, mine.c"
    assert listed(TASKS, 9, everything) == "mine.a, other.b, mine.c and 6 more"
    assert listed(TASKS, 9, MAY_SEE) == "mine.a, mine.c and 7 more"
    assert listed(TASKS[1:2], 9, MAY_SEE) == "9"

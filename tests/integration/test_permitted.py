"""Levers act on the DAGs alone that their caller has asked about: another one may come in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_slotgroups.domain.errors import NothingFoundError
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.services import requests
from tests.integration.support.world import Key, World

ALL = [Which()]
LEVERS: dict[str, Callable[..., Any]] = {
    "force-start": requests.force_start,
    "prioritize": lambda *args, **said: requests.prioritize(*args, 7, **said),
    "suspend": requests.suspend,
}


@pytest.fixture
def both(world: World) -> dict[str, Key]:
    """One waiter of each of two DAGs, in a group without slots."""
    world.group("P", 0)
    for dag_id in ("asked", "between"):
        world.dag(dag_id)
        world.run(dag_id, "run")
    keys = {dag_id: world.task("task", "P", dag_id) for dag_id in ("asked", "between")}
    world.round()
    return keys


@pytest.mark.parametrize("lever", LEVERS)
def test_a_request_that_came_in_between_is_left_alone(world: World, both: dict[str, Key], lever: str) -> None:
    changed = LEVERS[lever]("P", ALL, who="tester", dags={"asked"})

    assert [entry.dag_id for entry in changed] == ["asked"]
    asked, between = (world.requests(both[dag_id])[0] for dag_id in ("asked", "between"))
    assert (asked.forced, asked.priority, asked.suspended) != (False, 1, False)
    assert (between.forced, between.priority, between.suspended) == (False, 1, False)


def test_where_nothing_was_asked_about_nothing_is_there(world: World, both: dict[str, Key]) -> None:
    with pytest.raises(NothingFoundError):
        requests.suspend("P", ALL, who="tester", dags=set())

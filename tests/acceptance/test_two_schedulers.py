"""Two schedulers and two coordinators on PostgreSQL: S20, and S25 with ten kills."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from .world import World, moment

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres]

KILLS = 10


def test_s20_two_coordinators_never_let_in_too_many(two_schedulers: World, record_property: Any) -> None:
    """S20: a hundred tasks ready in the same second on four slots; the makespan of a plain pool is told as well."""
    world = two_schedulers
    assert len(world.coordinators()) == 2
    world.set_group("s20", 4)
    world.rest("POST", "pools", {"name": "s20_plain", "slots": 4})
    group = makespan(world, "s20")
    plain = makespan(world, "s20_plain")
    record_property(
        "S20", f"100 tasks on 4 slots took {group:.1f} s in a group, {plain:.1f} s in a plain pool"
    )
    world.assert_never_over("s20", 4)
    world.assert_idle("s20")
    requests = world.requests("s20")
    assert {row["map_index"] for row in requests} == set(range(100)), "a task ran without a request"
    assert {row["state"] for row in requests} == {"released"}, "a request outlived its task"


def makespan(world: World, dag_id: str) -> float:
    """Run a DAG; seconds from the first start to the last end."""
    world.run(dag_id)
    world.finish(dag_id)
    ran = world.executions(dag_id)
    return (max(one.end for one in ran) - min(one.start for one in ran)).total_seconds()


def test_s25_ten_kills(two_schedulers: World) -> None:
    """S25: coordinators and schedulers are killed ten times in the midst of the work.

    No slot leaks, none is given twice, no task is lost, and coordinators come back by themselves.
    """
    world = two_schedulers
    world.set_group("s25", 4)
    world.run("s25")
    victims = itertools.cycle(["coordinator", "coordinator", "scheduler"])
    schedulers = itertools.cycle([0, 1])
    progress = 2
    for victim in itertools.islice(victims, KILLS):
        world.wait(lambda enough=progress: count_grants(world) >= enough, f"{progress} grants")  # type: ignore[misc]
        if victim == "scheduler":
            kill_scheduler(world, next(schedulers))
        else:
            kill_coordinator(world)
        progress = count_grants(world) + 2
    assert world.run_state("s25") is None, "all was done before the last kill"
    world.finish("s25")
    world.assert_idle("s25")
    world.assert_never_over("s25", 4)
    world.wait(lambda: len(world.coordinators()) == 2, "both coordinators to be back")
    for row in world.requests("s25"):
        assert row["state"] in ("released", "cancelled"), f"a request outlived its task: {row}"
    for before, after in successive_requests(world):
        assert moment(before["ended_at"]) <= moment(after["granted_at"] or after["arrived_at"]), (
            before,
            after,
        )


def count_grants(world: World) -> int:
    """Grants so far."""
    return len(world.grants("s25"))


def kill_coordinator(world: World) -> None:
    """Kill -9 one coordinator, the older one, as soon as one lives."""
    alive = world.wait(world.coordinators, "a coordinator that can be killed")
    os.kill(alive[0]["pid"], signal.SIGKILL)


def kill_scheduler(world: World, index: int) -> None:
    """Kill -9 one scheduler with all its workers, and start it again."""
    world.airflow.kill_scheduler(index, signal.SIGKILL)
    world.airflow.restart_scheduler(index)


def successive_requests(world: World) -> Iterator[tuple[dict[str, object], dict[str, object]]]:
    """Pairs of requests of one task instance, one after the other."""
    requests = sorted(world.requests("s25"), key=lambda row: (row["map_index"], row["id"]))
    for _, same in itertools.groupby(requests, key=lambda row: row["map_index"]):
        yield from itertools.pairwise(same)

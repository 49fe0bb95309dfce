"""How long forty tasks take through a slot group, and through an ordinary pool of the same size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

from devtools.deployment import Deployment

SLOTS = "4"
PAIRS = 3
GROUP, POOL = "bench_group", "bench_pool"

Say = Callable[[str], None]


@dataclass
class Makespans:
    """Seconds of each run, by DAG."""

    kind: str
    seconds: dict[str, list[float]] = field(default_factory=lambda: {GROUP: [], POOL: []})

    def ratio(self) -> float:
        """How the group does against the pool: the median of the pairs; below 1 the pool was faster."""
        pairs = zip(self.seconds[POOL], self.seconds[GROUP], strict=True)
        return median(pool / group for pool, group in pairs)


def measure(airflow: Deployment, kind: str, say: Say) -> Makespans:
    """Run the pairs in turn on one Airflow, so that what disturbs one disturbs the other."""
    result = Makespans(kind)
    airflow.cli("slotgroups", "set", GROUP, SLOTS)
    airflow.cli("pools", "set", POOL, SLOTS, "an ordinary pool")
    with airflow:
        airflow.start()
        airflow.wait_dag_parsed([GROUP, POOL])
        # The first run of an Airflow takes half as long again, whoever it is.
        say(f"{kind}: warming up: {makespan(airflow, POOL, 'warm_up'):.1f} s")
        for number, dag_id in enumerate(turns()):
            seconds = makespan(airflow, dag_id, f"bench_{number}")
            result.seconds[dag_id].append(seconds)
            say(f"{kind}: {dag_id}, run {number + 1} of {2 * PAIRS}: {seconds:.1f} s")
    return result


def turns() -> Iterator[str]:
    """Who runs next; in every second pair the other one begins."""
    for number in range(PAIRS):
        yield from (GROUP, POOL) if number % 2 == 0 else (POOL, GROUP)


def makespan(airflow: Deployment, dag_id: str, run_id: str) -> float:
    """Seconds from the start of a run to the end of its last task."""
    airflow.trigger(dag_id, run_id)
    airflow.wait_runs([(dag_id, run_id)], timeout=180)
    query = (
        "SELECT min(r.start_date) AS first, max(t.end_date) AS last FROM dag_run r JOIN task_instance t"
        " ON t.dag_id = r.dag_id AND t.run_id = r.run_id WHERE r.dag_id = :dag_id AND r.run_id = :run_id"
    )
    [row] = airflow.rows(query, dag_id=dag_id, run_id=run_id)
    return (moment(row["last"]) - moment(row["first"])).total_seconds()


def moment(value: Any) -> datetime:
    """SQLite gives moments as text."""
    return value if isinstance(value, datetime) else datetime.fromisoformat(str(value))

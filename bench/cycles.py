"""How long a coordinator's cycle takes with a long queue.

`measure` starts this module as a process of its own, in the environment of an Airflow that does not run;
there it fills the tables by itself and plays the scheduler.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.databases import ROOT
from devtools.deployment import Deployment, DeploymentError

if TYPE_CHECKING:
    from airflow_slotgroups.coordinator.cycle import Cycle

WAITERS = (1_000, 10_000)
SLOTS = 4
ROUNDS = 20
AT_ONCE = 1_000
"""As many tasks a cycle enqueues at most."""
POOL = "bench_cycles"
NAMES: dict[str, Any] = {"dag_id": POOL, "run_id": POOL}


class CycleTime(NamedTuple):
    """Milliseconds of one kind of cycle."""

    kind: str
    what: str
    waiters: int
    rounds: int
    median_ms: float
    most_ms: float


def measure(airflow: Deployment, kind: str, say: Callable[[str], None]) -> list[CycleTime]:
    """Fill the tables of an Airflow that does not run, and time cycles on them."""
    process = subprocess.Popen(
        [airflow.python, "-m", "bench.cycles"],
        cwd=ROOT,
        env=airflow.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    results = []
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                time_taken = CycleTime(kind=kind, **json.loads(line))
                results.append(time_taken)
                say(
                    f"{kind}: {time_taken.what}, {time_taken.waiters:,} waiters: {time_taken.median_ms:.0f} ms"
                )
    if process.returncode != 0:
        raise DeploymentError(f"the measurement of cycles ended with {process.returncode}")
    return results


def main() -> None:
    """Measure with ever more waiters; one line of JSON for each result."""
    from airflow_slotgroups.airflow_core.sessions import new_session
    from airflow_slotgroups.coordinator.cycle import Cycle
    from airflow_slotgroups.services.groups import GroupChange, set_group

    set_group(POOL, GroupChange(slots=SLOTS), who="bench")
    add_run()
    cycle, tasks = Cycle(new_session), 0
    for waiters in WAITERS:
        # Those that are let in while measuring are still to wait for the whole of it.
        more = waiters + (ROUNDS + 1) * SLOTS - count_scheduled()
        add_tasks(range(tasks, tasks + more))
        tasks += more
        report("a thousand tasks are enqueued", waiters, enqueue_all(cycle))
        settle_statistics()
        report("nothing to do, the group is full", waiters, [timed(cycle) for _ in range(ROUNDS)])
        report(f"{SLOTS} slots are released and granted", waiters, [turn(cycle) for _ in range(ROUNDS)])


def report(what: str, waiters: int, seconds: list[float]) -> None:
    """Tell the process that started this one."""
    values = {
        "what": what,
        "waiters": waiters,
        "rounds": len(seconds),
        "median_ms": 1000 * median(seconds),
        "most_ms": 1000 * max(seconds),
    }
    print(json.dumps(values), flush=True)


def timed(cycle: Cycle) -> float:
    """Seconds of one cycle, discovery included, which is left out now and then when it takes long."""
    cycle.desk.next_discovery = 0.0
    started = time.perf_counter()
    result = cycle.run()
    seconds = time.perf_counter() - started
    if result.errors:
        sys.exit(f"a cycle failed: {result.errors}")
    return seconds


def enqueue_all(cycle: Cycle) -> list[float]:
    """Run cycles until nobody comes any more; return the times of those that enqueued a thousand."""
    times, before = [], count_live()
    while True:
        seconds, now = timed(cycle), count_live()
        if now == before:
            break
        if now - before >= AT_ONCE:
            times.append(seconds)
        before = now
    start_granted()
    timed(cycle)
    return times


def turn(cycle: Cycle) -> float:
    """The holders end, and the cycle sees that and lets the next ones in, which are then running."""
    end_running()
    seconds = timed(cycle)
    start_granted()
    timed(cycle)
    return seconds


# What Airflow does in real life


def add_run() -> None:
    """A DAG that may run as much as it likes, and one run of it."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType

    from airflow_slotgroups.airflow_core.clock import utcnow
    from airflow_slotgroups.airflow_core.sessions import new_session

    with new_session() as session:
        session.add(DagBundleModel(name=POOL))
        session.flush()
        dag = DagModel(dag_id=POOL, bundle_name=POOL, is_paused=False, is_stale=False)
        dag.max_active_tasks, dag.max_active_runs, dag.has_task_concurrency_limits = 10**6, 16, False
        dag.max_consecutive_failed_dag_runs = 0
        now = utcnow()
        run = DagRun(
            **NAMES, run_type=DagRunType.MANUAL, logical_date=now, run_after=now, state=DagRunState.RUNNING
        )
        session.add_all([dag, run])


def add_tasks(numbers: range) -> None:
    """Scheduled task instances of the group's pool."""
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import insert

    from airflow_slotgroups.airflow_core.clock import utcnow
    from airflow_slotgroups.airflow_core.sessions import new_session

    common = {
        **NAMES,
        "map_index": -1,
        "pool": POOL,
        "pool_slots": 1,
        "state": "scheduled",
        "try_number": 1,
        "max_tries": 0,
        "scheduled_dttm": utcnow(),
        "operator": "PythonOperator",
        "queue": "default",
    }
    rows = [common | {"task_id": f"t{number}", "priority_weight": number % 10} for number in numbers]
    with new_session() as session:
        session.execute(insert(TaskInstance.__table__), rows)


def execute(sql: str) -> Any:
    """Run one statement and return its first value, if it has any."""
    from sqlalchemy import text

    from airflow_slotgroups.airflow_core.sessions import new_session

    with new_session() as session:
        result: Any = session.execute(text(sql))
        return result.scalar() if result.returns_rows else None


def count_scheduled() -> int:
    """Tasks that wait."""
    return int(execute(f"SELECT count(*) FROM task_instance WHERE state = 'scheduled' AND pool = '{POOL}'"))


def count_live() -> int:
    """Requests that wait or hold."""
    return int(execute("SELECT count(*) FROM slot_request WHERE live"))


def start_granted() -> None:
    """The scheduler starts what was let in."""
    execute(
        "UPDATE task_instance SET state = 'running', queued_dttm = scheduled_dttm"
        f" WHERE state = 'scheduled' AND pool = '{POOL}.running'"
    )


def end_running() -> None:
    """The holders end."""
    execute("UPDATE task_instance SET state = 'success' WHERE state = 'running'")


def settle_statistics() -> None:
    """What the database does by itself after a while."""
    execute("ANALYZE")


if __name__ == "__main__":
    main()

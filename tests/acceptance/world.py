"""What scenarios do and see: runs, gates, groups, queues, and what Airflow has recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import psutil

from devtools.demo_summary import Execution, Grant, cycles, inversions, most_used
from devtools.deployment import RUN_ENDED, Deployment

from .remote import Remote

Result = TypeVar("Result")
Row = dict[str, Any]

PATIENCE = 240.0
"""Seconds that a scenario waits for one thing; the machine may be slow, and scenarios run side by side."""
RUN = "run"


class Done(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str


class WorldEndedError(RuntimeError):
    """The tests were stopped while a scenario still waited."""


class World:
    """One Airflow with the package in it, shared by scenarios that use groups and DAGs of their own."""

    def __init__(self, deployment: Deployment) -> None:
        self.airflow = deployment
        self.gates = deployment.home / "gates"
        self.gates.mkdir(exist_ok=True)
        self.ended = threading.Event()
        self._remote = Remote(deployment)

    def close(self) -> None:
        """Make scenarios stop waiting, let tasks at gates end, and end the helper process."""
        self.ended.set()
        self.open("everything")
        self._remote.close()

    # Waiting

    def wait(self, predicate: Callable[[], Result], what: str, timeout: float = PATIENCE) -> Result:
        """Poll until the result is true, and return it."""

        def checked() -> Result:
            if self.ended.is_set():
                raise WorldEndedError(what)
            return predicate()

        return self.airflow.wait_for(checked, timeout, what, interval=0.25)

    def watch(self, check: Callable[[], None], cycles_seen: int = 2) -> None:
        """Check again and again until the coordinator has reported several times more, so cycled many times."""
        seen: set[str] = set()

        def done() -> bool:
            check()
            seen.update(str(row["last_cycle_at"]) for row in self.coordinators())
            return len(seen) > cycles_seen

        self.wait(done, "more cycles of the coordinator")

    def open(self, *gates: str) -> None:
        """Let the tasks at these gates end."""
        for gate in gates:
            (self.gates / gate).touch()

    # Services

    def set_group(self, name: str, slots: int, **settings: Any) -> None:
        """Make or change a group."""
        self._remote.call("set", name, slots, **settings)

    def adopt(self, name: str) -> None:
        """Adopt an ordinary pool."""
        self._remote.call("adopt", name)

    def dissolve(self, name: str) -> None:
        """Dissolve a group; a task that somebody has locked, if only by a heartbeat, goes home a cycle later."""
        self._remote.call("dissolve", name)
        gone = "SELECT pool FROM slot_group WHERE pool = :pool"
        self.wait(lambda: not self.rows(gone, pool=name), f"slot group {name} to be gone", timeout=30)

    def group(self, name: str) -> Row:
        """The group as people see it."""
        return dict(self._remote.call("get", name))

    def queue(self, name: str) -> list[Row]:
        """Holders and waiters as people see them."""
        return list(self._remote.call("queue", name))

    def waiters(self, name: str) -> list[Row]:
        """The waiters in order."""
        return [entry for entry in self.queue(name) if entry["state"] == "waiting"]

    def holders(self, name: str) -> list[Row]:
        """The holders, the longest first."""
        return [entry for entry in self.queue(name) if entry["state"] == "granted"]

    def check(self) -> list[Row]:
        """What the health check finds."""
        return list(self._remote.call("check"))

    def wait_group(self, name: str, **wanted: int) -> Row:
        """Wait until the group shows these numbers (used, waiting, ...)."""

        def matches() -> Row:
            group = self.group(name)
            return group if wanted.items() <= group.items() else {}

        return self.wait(matches, f"group {name} with {wanted}")

    @property
    def locks_rows(self) -> bool:
        """Whether Airflow locks rows on this database."""
        return self.airflow.engine().dialect.name != "sqlite"

    # Runs

    def set_pool(self, name: str, slots: int) -> None:
        """Set the slots of a pool, as a person does in Admin → Pools."""
        body = {"pool": name, "slots": slots, "include_deferred": False, "description": ""}
        self.rest("PATCH", f"pools/{quote(name)}?update_mask=slots", body)

    def run(self, *dag_ids: str, run_id: str = RUN) -> None:
        """Trigger DAGs."""
        for dag_id in dag_ids:
            self.airflow.trigger(dag_id, run_id)

    def finish(self, *dag_ids: str, run_id: str = RUN) -> None:
        """Wait for the end of runs, all of which must succeed."""
        for dag_id in dag_ids:
            state = self.wait(lambda dag_id=dag_id: self.run_state(dag_id, run_id), f"the end of {dag_id}")  # type: ignore[misc]
            assert state == "success", f"{dag_id} ended as {state}: {self.tasks(dag_id, run_id)}"

    def run_state(self, dag_id: str, run_id: str = RUN) -> str | None:
        """The state of a run that has ended, else None."""
        rows = self.rows(
            "SELECT state FROM dag_run WHERE dag_id = :dag_id AND run_id = :run_id",
            dag_id=dag_id,
            run_id=run_id,
        )
        return next((row["state"] for row in rows if row["state"] in RUN_ENDED), None)

    def set_run_state(self, dag_id: str, state: str, run_id: str = RUN) -> None:
        """Mark a run, as a person does in the pages."""
        self.rest("PATCH", f"dags/{quote(dag_id)}/dagRuns/{quote(run_id)}", {"state": state})

    def let_a_loop_pass(self) -> None:
        """Wait until the scheduler has ended a loop.

        Where rows are not locked (SQLite), Airflow's scheduler ends itself when a run that it has in hand is
        deleted; one that was marked or paused before its loop began is none of those.
        """
        begun = datetime.now(timezone.utc)
        query = "SELECT latest_heartbeat FROM job WHERE job_type = 'SchedulerJob' AND state = 'running'"
        self.wait(
            lambda: all(moment(row["latest_heartbeat"]) > begun for row in self.rows(query)),
            "the scheduler to end a loop",
        )

    def rest(self, method: str, path: str, body: Any = None) -> Any:
        """Call Airflow's REST API."""
        return self.airflow.rest.call(method, f"/api/v2/{path}", body)

    def cli(self, *args: str) -> str:
        """Run `airflow ARGS`, which must go well; returns what it printed."""
        done = self.command(*args)
        assert done.code == 0, f"airflow {' '.join(args)} ended with {done}"
        return done.out + done.err

    def command(self, *args: str) -> Done:
        """Run `airflow ARGS`; `airflow.cli` is the same as a process of its own, which costs seconds."""
        return Done(*self._remote.call("airflow", *args))

    # What is recorded

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        """The rows of a query."""
        return self.airflow.rows(sql, **parameters)

    def tasks(self, dag_id: str, run_id: str = RUN) -> list[Row]:
        """Task instances of a run."""
        return self.rows(
            "SELECT task_id, map_index, state, pool, try_number, start_date, end_date FROM task_instance"
            " WHERE dag_id = :dag_id AND run_id = :run_id ORDER BY task_id, map_index",
            dag_id=dag_id,
            run_id=run_id,
        )

    def states(self, dag_id: str, run_id: str = RUN) -> dict[str, str | None]:
        """States of the task instances of a run, by task id (with [map index])."""
        return {task_name(row): row["state"] for row in self.tasks(dag_id, run_id)}

    def coordinators(self) -> list[Row]:
        """The coordinators whose processes live."""
        rows = self.rows("SELECT pid, last_cycle_at FROM slot_coordinator ORDER BY pid")
        return [row for row in rows if psutil.pid_exists(row["pid"])]

    def requests(self, pool: str) -> list[Row]:
        """All requests of a group, in order of their making."""
        return self.rows("SELECT * FROM slot_request WHERE pool = :pool ORDER BY id", pool=pool)

    def grants(self, pool: str) -> list[Grant]:
        """Requests that the queue has let in, in the order in which it did."""
        return ordered(
            Grant(
                group=pool,
                task=f"{row['dag_id']}.{task_name(row)}",
                priority=row["priority"],
                enqueued_at=moment(row["enqueued_at"]),
                arrived_at=moment(row["arrived_at"]),
                granted_at=moment(row["granted_at"]),
            )
            for row in self.requests(pool)
            if row["granted_at"] is not None and row["admission"] == "queue"
        )

    def executions(self, pool: str, dag_id: str | None = None) -> list[Execution]:
        """Every try that ran in a pool or its running pool, from first start to last end."""
        rows = self.rows(EXECUTIONS, pool=pool, running=f"{pool}.running")
        found = [
            Execution(pool, row["pool_slots"], moment(row["start_date"]), moment(row["end_date"]))
            for row in rows
            if dag_id in (None, row["dag_id"])
        ]
        return sorted(found, key=lambda one: one.start)

    # Judgements

    def assert_never_over(self, pool: str, slots: int, dag_id: str | None = None) -> None:
        """No more than so many slots ever ran at once, by Airflow's own times, of one DAG or of all."""
        peak = most_used(self.executions(pool, dag_id))
        assert peak <= slots, f"{peak} slots of {pool} ran at once, {slots} is its size"

    def assert_in_order(self, pool: str) -> None:
        """Nobody was let in later than one that stood below."""
        found = inversions(self.grants(pool))
        assert not found, f"let in out of order in {pool}: {[(a.task, b.task) for a, b in found]}"

    def assert_idle(self, pool: str) -> None:
        """Within a few cycles nothing waits, nothing holds, and no task instance is left in the running pool."""
        self.wait_group(pool, waiting=0, holding=0, used=0, overdraft=0)
        left = self.rows(LEFT, running=f"{pool}.running")
        assert not left, f"left in {pool}.running: {left}"


TRIES = " UNION ALL ".join(
    "SELECT dag_id, run_id, task_id, map_index, pool_slots, start_date, end_date"
    f" FROM {table}"
    " WHERE pool IN (:pool, :running) AND start_date IS NOT NULL AND end_date IS NOT NULL"
    for table in ("task_instance", "task_instance_history")
)
# A try that is cleared before it starts keeps, and takes into the history, the times of the try before:
# one start is one execution, however many tries name it.
EXECUTIONS = (
    f"SELECT dag_id, pool_slots, start_date, MAX(end_date) AS end_date FROM ({TRIES}) AS tries"
    " GROUP BY dag_id, run_id, task_id, map_index, pool_slots, start_date"
)
LEFT = (
    "SELECT dag_id, task_id, map_index, state FROM task_instance"
    " WHERE pool = :running AND (state IS NULL OR state NOT IN"
    " ('success', 'failed', 'skipped', 'upstream_failed', 'removed'))"
)


def ordered(grants: Any) -> list[Grant]:
    """Grants by decision, within one decision by their place in the queue."""
    return [grant for cycle in cycles(grants) for grant in cycle]


def names(grants: Sequence[Grant]) -> list[str]:
    """Task names of grants, without their DAG."""
    return [grant.task.partition(".")[2] for grant in grants]


def task_name(row: Row) -> str:
    """A task id with its map index."""
    return f"{row['task_id']}[{row['map_index']}]" if row["map_index"] >= 0 else str(row["task_id"])


def moment(value: str | datetime) -> datetime:
    """A time of plain SQL: a text on SQLite; always UTC."""
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def only(entries: Collection[Row], **wanted: Any) -> Row:
    """The one entry with these values."""
    found = [entry for entry in entries if wanted.items() <= entry.items()]
    assert len(found) == 1, f"{len(found)} entries with {wanted} among {list(entries)}"
    return found[0]

"""What the demo reads from the database of its Airflow, for runs whose id begins alike."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from devtools.demo_summary import Execution, Grant, Section
from devtools.deployment import Deployment


@dataclass(frozen=True)
class Waiter:
    """One waiting request."""

    task: str
    priority: int
    slots: int
    arrived_at: datetime


@dataclass(frozen=True)
class GroupView:
    """One group at one moment."""

    group: str
    capacity: int
    used: int
    running: tuple[str, ...]
    waiters: tuple[Waiter, ...]


REQUESTS = """
    SELECT pool, kind, dag_id, run_id, task_id, map_index, try_number, slots, priority, state, admission,
           enqueued_at, arrived_at, granted_at, ended_at, end_reason
    FROM slot_request
    WHERE run_id LIKE :run_id || '%'
    ORDER BY priority DESC, arrived_at, id
"""

# A retried task instance keeps its last try in task_instance; the others are in the history.
TRIES = """
    SELECT pool, pool_slots, dag_id, run_id, task_id, map_index, start_date, end_date
    FROM task_instance
    WHERE run_id LIKE :run_id || '%' AND start_date IS NOT NULL AND end_date IS NOT NULL
    UNION ALL
    SELECT pool, pool_slots, dag_id, run_id, task_id, map_index, start_date, end_date
    FROM task_instance_history
    WHERE run_id LIKE :run_id || '%' AND start_date IS NOT NULL AND end_date IS NOT NULL
"""

RUNNING = ".running"
ACQUIRE = "acquire_slots"


def read_groups(airflow: Deployment, run_id: str) -> list[GroupView]:
    """Every group with its holders and waiters of this run id."""
    requests = airflow.rows(REQUESTS, run_id=run_id)
    groups = airflow.rows("SELECT pool, slots FROM slot_group ORDER BY pool")
    return [
        _view(group["pool"], group["slots"], [one for one in requests if one["pool"] == group["pool"]])
        for group in groups
    ]


def read_grants(airflow: Deployment, run_id: str) -> list[Grant]:
    """Every request of this run id that the queue has let in."""
    return [
        Grant(
            group=row["pool"],
            task=_name(row),
            priority=row["priority"],
            enqueued_at=_moment(row["enqueued_at"]),
            arrived_at=_moment(row["arrived_at"]),
            granted_at=_moment(row["granted_at"]),
        )
        for row in airflow.rows(REQUESTS, run_id=run_id)
        if row["granted_at"] is not None and row["admission"] == "queue"
    ]


def read_executions(airflow: Deployment, run_id: str) -> list[Execution]:
    """Everything that used slots: every try that ran, and every hold of a section, under its group's name."""
    tries = [
        Execution(
            group=row["pool"].removesuffix(RUNNING),
            slots=row["pool_slots"],
            start=_moment(row["start_date"]),
            end=_moment(row["end_date"]),
        )
        for row in airflow.rows(TRIES, run_id=run_id)
        # An acquire, and a task that failed because of its max_wait, never left the closed pool.
        if row["pool"].endswith(RUNNING)
    ]
    holds = [
        Execution(row["pool"], row["slots"], _moment(row["granted_at"]), _ended(row))
        for row in _holds(airflow, run_id)
    ]
    return tries + holds


def read_sections(airflow: Deployment, run_id: str) -> list[Section]:
    """Every section that held slots, with the time from the start of its first task to the end of its last."""
    tries = airflow.rows(TRIES, run_id=run_id)
    found = []
    for hold in _holds(airflow, run_id):
        inside = [row for row in tries if _is_inside(row, hold)]
        if inside:
            start = min(_moment(row["start_date"]) for row in inside)
            end = max(_moment(row["end_date"]) for row in inside)
            found.append(Section(hold["pool"], f"{_name(hold)} of {hold['run_id']}", start, end))
    return sorted(found, key=lambda section: section.start)


def read_expired(airflow: Deployment, run_id: str) -> list[str]:
    """The tasks that failed because they had waited as long as their max_wait allows."""
    rows = airflow.rows(REQUESTS, run_id=run_id)
    return sorted(_name(row) for row in rows if row["end_reason"] == "expired")


def _holds(airflow: Deployment, run_id: str) -> list[dict[str, Any]]:
    rows = airflow.rows(REQUESTS, run_id=run_id)
    return [row for row in rows if row["kind"] == "section" and row["granted_at"] is not None]


def _is_inside(row: dict[str, Any], hold: dict[str, Any]) -> bool:
    same = all(row[key] == hold[key] for key in ("dag_id", "run_id", "map_index"))
    section = hold["task_id"].removesuffix(ACQUIRE)
    ends = (section + ACQUIRE, section + "release_slots")
    return same and row["task_id"].startswith(section) and row["task_id"] not in ends


def _ended(row: dict[str, Any]) -> datetime:
    """When a request ended; a hold may end a cycle after its run."""
    return datetime.now(timezone.utc) if row["ended_at"] is None else _moment(row["ended_at"])


def _view(group: str, capacity: int, requests: list[dict[str, Any]]) -> GroupView:
    granted = [one for one in requests if one["state"] == "granted"]
    waiting = [one for one in requests if one["state"] == "waiting"]
    return GroupView(
        group=group,
        capacity=capacity,
        used=sum(one["slots"] for one in granted),
        running=tuple(_name(one) for one in granted),
        waiters=tuple(
            Waiter(_name(one), one["priority"], one["slots"], _moment(one["arrived_at"])) for one in waiting
        ),
    )


def _name(row: dict[str, Any]) -> str:
    mapped = f"[{row['map_index']}]" if row["map_index"] >= 0 else ""
    again = f" (try {row['try_number']})" if row["try_number"] > 1 else ""
    # A section goes by the name of its task group.
    task = row["task_id"].removesuffix(f".{ACQUIRE}")
    return f"{row['dag_id'].removeprefix('demo_')}.{task}{mapped}{again}"


def _moment(value: str | datetime) -> datetime:
    """Plain SQL gets texts from SQLite, and times without a zone from some databases: all are UTC."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)

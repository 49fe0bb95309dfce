"""What the demo reads from the database of its Airflow, for one run id."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from devtools.demo_summary import Execution, Grant
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
    SELECT pool, dag_id, task_id, map_index, try_number, slots, priority, state, admission,
           enqueued_at, arrived_at, granted_at
    FROM slot_request
    WHERE run_id = :run_id
    ORDER BY priority DESC, arrived_at, id
"""

# A retried task instance keeps its last try in task_instance; the others are in the history.
EXECUTIONS = """
    SELECT pool, pool_slots, start_date, end_date
    FROM task_instance
    WHERE run_id = :run_id AND start_date IS NOT NULL AND end_date IS NOT NULL
    UNION ALL
    SELECT pool, pool_slots, start_date, end_date
    FROM task_instance_history
    WHERE run_id = :run_id AND start_date IS NOT NULL AND end_date IS NOT NULL
"""


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
    """Every try of this run id that ran, under its group's name."""
    return [
        Execution(
            group=row["pool"].removesuffix(".running"),
            slots=row["pool_slots"],
            start=_moment(row["start_date"]),
            end=_moment(row["end_date"]),
        )
        for row in airflow.rows(EXECUTIONS, run_id=run_id)
    ]


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
    return f"{row['dag_id'].removeprefix('demo_')}.{row['task_id']}{mapped}{again}"


def _moment(value: str | datetime) -> datetime:
    """Plain SQL gets texts from SQLite, and times without a zone from some databases: all are UTC."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)

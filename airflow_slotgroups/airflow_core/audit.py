"""Airflow's audit log."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from airflow.models.log import Log
from sqlalchemy import select
from sqlalchemy.orm import Session

EVENT_PREFIX = "slotgroups."

ACTIONS = (
    "set",
    "adopt",
    "dissolve",
    "delete",
    "pause",
    "resume",
    "bypass",
    "force-start",
    "prioritize",
    "to-top",
    "suspend",
    "unsuspend",
)
"""What people do."""

MAX_WAIT = "max_wait"
"""What happens by itself: a task fails since it has waited as long as it allows."""

TaskId = tuple[str, str, str, int, int]
"""dag_id, run_id, task_id, map_index, try_number."""


def write_audit(
    session: Session, action: str, *, who: str, task: TaskId | None = None, **details: Any
) -> None:
    """Log an action in the caller's transaction, so that it stands if and only if the action does.

    :param action: the verb, as in the CLI; the event is `slotgroups.<action>`.
    :param task: the task instance that it was done to; the entry then stands in its audit log.
    :param details: group, old and new values, comment; written as JSON.
    """
    assert action in (*ACTIONS, MAX_WAIT), action
    names = ("dag_id", "run_id", "task_id", "map_index", "try_number")
    where: dict[str, Any] = dict(zip(names, task, strict=True)) if task else {}
    entry = Log(
        event=EVENT_PREFIX + action, owner=who, owner_display_name=who, extra=json.dumps(details), **where
    )
    session.add(entry)


class AuditEntry(NamedTuple):
    """A manual action as it was logged.

    :param details: old and new values and the comment.
    """

    id: int
    at: datetime | None
    action: str
    who: str | None
    dag_id: str | None
    run_id: str | None
    task_id: str | None
    map_index: int | None
    details: dict[str, Any]


def read_audit(session: Session, group: str, limit: int, before: int | None = None) -> list[AuditEntry]:
    """Read what was done to a group and its requests, the last action first.

    :param before: entries of lower ids alone.
    """
    # The group is a value of the JSON text; capitals may not matter to LIKE, so it is looked at again.
    query = (
        select(Log)
        .where(Log.event.in_([EVENT_PREFIX + action for action in ACTIONS]))
        .where(Log.extra.contains(f'"group": {json.dumps(group)}', autoescape=True))
        .order_by(Log.id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(Log.id < before)
    entries = [audit_entry(row) for row in session.scalars(query)]
    return [entry for entry in entries if entry.details.pop("group", None) == group]


def audit_entry(row: Log) -> AuditEntry:
    """Translate."""
    action = row.event.removeprefix(EVENT_PREFIX)
    where = (row.dag_id, row.run_id, row.task_id, row.map_index)
    return AuditEntry(row.id, row.dttm, action, row.owner, *where, json.loads(row.extra or "{}"))

"""Airflow's audit log."""

from __future__ import annotations

import json
from typing import Any

from airflow.models.log import Log
from sqlalchemy.orm import Session

EVENT_PREFIX = "slotgroups."


TaskId = tuple[str, str, str, int, int]
"""dag_id, run_id, task_id, map_index, try_number."""


def write_audit(
    session: Session, action: str, *, who: str, task: TaskId | None = None, **details: Any
) -> None:
    """Log a manual action in the caller's transaction, so that it stands if and only if the action does.

    :param action: the verb, as in the CLI; the event is `slotgroups.<action>`.
    :param task: the task instance that it was done to; the entry then stands in its audit log.
    :param details: group, old and new values, comment; written as JSON.
    """
    names = ("dag_id", "run_id", "task_id", "map_index", "try_number")
    where: dict[str, Any] = dict(zip(names, task, strict=True)) if task else {}
    entry = Log(
        event=EVENT_PREFIX + action, owner=who, owner_display_name=who, extra=json.dumps(details), **where
    )
    session.add(entry)

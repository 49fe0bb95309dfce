"""Airflow's audit log."""

from __future__ import annotations

import json
from typing import Any

from airflow.models.log import Log
from sqlalchemy.orm import Session

EVENT_PREFIX = "slotgroups."


def write_audit(session: Session, action: str, *, who: str, **details: Any) -> None:
    """Log a manual action in the caller's transaction, so that it stands if and only if the action does.

    :param action: the verb, as in the CLI; the event is `slotgroups.<action>`.
    :param details: group, old and new values, comment; written as JSON.
    """
    session.add(
        Log(event=EVENT_PREFIX + action, owner=who, owner_display_name=who, extra=json.dumps(details))
    )

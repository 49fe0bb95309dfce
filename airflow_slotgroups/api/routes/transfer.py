"""All slot groups at once: to a file and from one."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter

from airflow_slotgroups.api.auth import (
    User,
    check_pool,
    forbidden,
    may_pool,
    name_of,
    readable_pools,
    require_pool,
)
from airflow_slotgroups.api.schemas import EntryOut, ImportIn, ImportOut
from airflow_slotgroups.domain.names import check_group_name
from airflow_slotgroups.services import transfer

router = APIRouter(tags=["Groups"])


@router.get("/export", dependencies=[require_pool("GET")], response_model_exclude_none=True)
def export_groups(user: User) -> dict[str, EntryOut]:
    """Get all groups as `airflow slotgroups export` writes them, but for those that the reader may not see."""
    may_read = readable_pools(user)
    entries = transfer.export_groups()
    return {name: EntryOut(**vars(entry)) for name, entry in entries.items() if may_read(name)}


@router.post("/import", dependencies=[require_pool("POST")])
def import_groups(body: ImportIn, user: User) -> ImportOut:
    """Make and change groups, all of them or none; those that are not named stay."""
    for name, entry in body.groups.items():
        check_group_name(name)
        check_pool(user, "PUT", name)
        check_team(user, name, entry)
    done = transfer.import_content(
        body.source,
        json.dumps(body.groups),
        who=name_of(user),
        take_pools=body.adopt,
        comment=body.comment,
    )
    return ImportOut(done={name: what.value for name, what in done.items()})


def check_team(user: Any, name: str, entry: Any) -> None:
    """Refuse with 403 to put a pool into a team that the user has no rights in, as Airflow's own API does."""
    team = entry.get("team_name") if isinstance(entry, dict) else None
    if isinstance(team, str) and not may_pool(user, "PUT", name, team):
        raise forbidden(f"You may not PUT pool '{name}' into team '{team}'")

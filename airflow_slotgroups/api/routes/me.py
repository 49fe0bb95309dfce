"""What may I do?"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from airflow_slotgroups.api.auth import User, may_pool, name_of
from airflow_slotgroups.domain.names import MAX_NAME_LENGTH

router = APIRouter(tags=["Me"])


class MeOut(BaseModel):
    """Who asks, and what he may do with slot groups; a row of a queue says itself whether he may act on it."""

    name: str
    can_read: bool
    can_create: bool
    can_change: bool
    can_delete: bool


@router.get("/me")
def me(user: User, pool: Annotated[str | None, Query(max_length=MAX_NAME_LENGTH)] = None) -> MeOut:
    """Answer for one group, or for groups as such; so that a page offers nothing that would be refused."""
    return MeOut(
        name=name_of(user),
        can_read=may_pool(user, "GET", pool),
        can_create=may_pool(user, "POST", pool),
        can_change=may_pool(user, "PUT", pool),
        can_delete=may_pool(user, "DELETE", pool),
    )

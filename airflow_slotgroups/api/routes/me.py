"""What may I do?"""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel

from airflow_slotgroups.api.auth import Method, User, check_pool, name_of

router = APIRouter(tags=["Me"])


class MeOut(BaseModel):
    """Who asks, and what he may do with slot groups; a row of a queue says itself whether he may act on it."""

    name: str
    can_read: bool
    can_create: bool
    can_change: bool
    can_delete: bool


@router.get("/me")
def me(user: User, pool: str | None = None) -> MeOut:
    """Answer for one group, or for groups as such; so that a page offers nothing that would be refused."""

    def may(method: Method) -> bool:
        try:
            check_pool(user, method, pool)
        except HTTPException:
            return False
        return True

    return MeOut(
        name=name_of(user),
        can_read=may("GET"),
        can_create=may("POST"),
        can_change=may("PUT"),
        can_delete=may("DELETE"),
    )

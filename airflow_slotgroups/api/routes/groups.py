"""Slot groups."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path, Query, status

from airflow_slotgroups.api.auth import User, name_of, readable_pools, require_pool, visible_to
from airflow_slotgroups.api.schemas import (
    CommentIn,
    DissolveIn,
    GroupChangeIn,
    GroupIn,
    GroupOut,
    GroupsOut,
    group_out,
)
from airflow_slotgroups.domain.names import MAX_NAME_LENGTH
from airflow_slotgroups.domain.states import Mode
from airflow_slotgroups.services import groups, health, overview

router = APIRouter(tags=["Groups"])

PoolName = Annotated[str, Path(max_length=MAX_NAME_LENGTH, description="Name of the slot group")]
Why = Annotated[str | None, Query(max_length=1000, description="Why; kept in the audit log")]
Changes = Annotated[GroupChangeIn, Body(default_factory=GroupChangeIn)]
Dissolving = Annotated[DissolveIn, Body(default_factory=DissolveIn)]
Comment = Annotated[CommentIn, Body(default_factory=CommentIn)]


@router.get("/groups", dependencies=[require_pool("GET")])
def list_groups(user: User) -> GroupsOut:
    """List all groups; those whose pools the reader may not see are left out."""
    may_see, may_read = visible_to(user), readable_pools(user)
    shown = [group_out(view, may_see) for view in overview.overview() if may_read(view.status.pool)]
    return GroupsOut(groups=shown, coordinators_alive=health.coordinators_alive())


@router.post("/groups", status_code=status.HTTP_201_CREATED, dependencies=[require_pool("POST")])
def create_group(body: GroupIn, user: User) -> GroupOut:
    """Make a group with its pools; 409 when the name is taken."""
    groups.create_group(body.pool, body.change(), who=name_of(user), comment=body.comment)
    return one(body.pool, user)


@router.get("/groups/{pool:path}", dependencies=[require_pool("GET")])
def get_group(pool: PoolName, user: User) -> GroupOut:
    """Get one group."""
    return one(pool, user)


@router.patch("/groups/{pool:path}", dependencies=[require_pool("PUT")])
def change_group(pool: PoolName, body: GroupChangeIn, user: User) -> GroupOut:
    """Change size, description, strategy or ageing of a group; 404 when there is none."""
    groups.change_existing(pool, body.change(), who=name_of(user), comment=body.comment)
    return one(pool, user)


@router.delete(
    "/groups/{pool:path}", status_code=status.HTTP_204_NO_CONTENT, dependencies=[require_pool("DELETE")]
)
def delete_group(pool: PoolName, user: User, comment: Why = None) -> None:
    """Delete a group that nobody uses, with its pools; 409 with the counts when it is in use."""
    groups.delete(pool, who=name_of(user), comment=comment)


@router.post("/adopt/{pool:path}", dependencies=[require_pool("PUT")])
def adopt_pool(pool: PoolName, user: User, body: Changes) -> GroupOut:
    """Turn an ordinary pool into a slot group, with its tasks in flight."""
    groups.adopt(pool, body.change(), who=name_of(user), comment=body.comment)
    return one(pool, user)


@router.post(
    "/dissolve/{pool:path}", status_code=status.HTTP_204_NO_CONTENT, dependencies=[require_pool("PUT")]
)
def dissolve_group(pool: PoolName, user: User, body: Dissolving) -> None:
    """Turn a slot group back into an ordinary pool, with its tasks in flight."""
    groups.dissolve(pool, who=name_of(user), end_sections=body.end_sections, comment=body.comment)


@router.post("/pause/{pool:path}", dependencies=[require_pool("PUT")])
def pause_group(pool: PoolName, user: User, body: Comment) -> GroupOut:
    """Let nobody in; holders finish."""
    return in_mode(pool, Mode.PAUSED, user, body)


@router.post("/resume/{pool:path}", dependencies=[require_pool("PUT")])
def resume_group(pool: PoolName, user: User, body: Comment) -> GroupOut:
    """Let waiters in again."""
    return in_mode(pool, Mode.ACTIVE, user, body)


@router.post("/bypass/{pool:path}", dependencies=[require_pool("PUT")])
def bypass_group(pool: PoolName, user: User, body: Comment) -> GroupOut:
    """Lift the limit."""
    return in_mode(pool, Mode.BYPASS, user, body)


def in_mode(pool: str, mode: Mode, user: User, body: CommentIn) -> GroupOut:
    """Change the mode and answer with the group."""
    groups.set_mode(pool, mode, who=name_of(user), comment=body.comment)
    return one(pool, user)


def one(pool: str, user: User) -> GroupOut:
    """Answer with one group."""
    return group_out(overview.overview_of_one(pool), visible_to(user))

"""Requests of a group: who waits, who holds, and the levers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, status
from pydantic import BaseModel, Field

from airflow_slotgroups.api.auth import User, check_requests, may_act, name_of, require_pool, visible_to
from airflow_slotgroups.api.routes.groups import PoolName
from airflow_slotgroups.api.schemas import ChangedOut, PriorityIn, RequestsOut, WhichIn, request_out
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.services import queue, requests
from airflow_slotgroups.services.queue import QueueEntry

router = APIRouter(tags=["Requests"])

Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, lt=2**31)]


class Filter(BaseModel):
    """Which requests are asked for; all of them when nothing is given."""

    dag_id: str | None = None
    request_id: int | None = None
    search: str | None = Field(
        None,
        max_length=1000,
        description="a part of the names of DAG, task or run, as far as they may be seen",
    )

    def keep(self, user: Any) -> queue.Keep | None:
        """Translate; what may not be seen is not found by its name."""
        if not (self.search or self.dag_id is not None or self.request_id is not None):
            return None
        may_see = visible_to(user)
        part = (self.search or "").casefold()

        def keep(entry: QueueEntry) -> bool:
            names = (entry.dag_id, entry.task_id, entry.run_id)
            return (
                self.dag_id in (None, entry.dag_id)
                and self.request_id in (None, entry.request_id)
                and (not part or (any(part in n.casefold() for n in names) and may_see(entry.dag_id)))
            )

        return keep


Filters = Annotated[Filter, Depends()]


@router.get("/waiters/{pool:path}", dependencies=[require_pool("GET")])
def list_waiters(
    pool: PoolName, user: User, only: Filters, limit: Limit = 100, offset: Offset = 0
) -> RequestsOut:
    """List who waits, in the order in which they are let in, each with its reason."""
    return listed(queue.waiters_of(pool, limit, offset, only.keep(user)), user)


@router.get("/holders/{pool:path}", dependencies=[require_pool("GET")])
def list_holders(
    pool: PoolName, user: User, only: Filters, limit: Limit = 100, offset: Offset = 0
) -> RequestsOut:
    """List who holds slots, the longest first."""
    return listed(queue.holders_of(pool, limit, offset, only.keep(user)), user)


def listed(page: queue.Page, user: Any) -> RequestsOut:
    """Translate a page; rows of DAGs that the reader may not see keep their places and have no names."""
    may_see, acts = visible_to(user), may_act(user)
    shown = [request_out(e, visible=may_see(e.dag_id), can_act=acts(e.dag_id)) for e in page.entries]
    return RequestsOut(
        requests=shown, total=page.total, hidden=sum(not may_see(e.dag_id) for e in page.entries)
    )


@router.post("/force-start/{pool:path}", dependencies=[require_pool("PUT")])
def force_start(pool: PoolName, body: WhichIn, user: User) -> ChangedOut:
    """Let waiters in at once, past queue and capacity; the reasons name what still holds them."""
    who, comment = name_of(user), body.comment
    return act(pool, body, user, lambda which: requests.force_start(pool, which, who=who, comment=comment))


@router.post("/prioritize/{pool:path}", dependencies=[require_pool("PUT")])
def prioritize(pool: PoolName, body: PriorityIn, user: User) -> ChangedOut:
    """Give waiters another priority, or put them before all others."""
    who, comment, priority = name_of(user), body.comment, body.priority
    return act(
        pool, body, user, lambda which: requests.prioritize(pool, which, priority, who=who, comment=comment)
    )


@router.post("/suspend/{pool:path}", dependencies=[require_pool("PUT")])
def suspend(pool: PoolName, body: WhichIn, user: User) -> ChangedOut:
    """Pass waiters over; they keep their places."""
    who, comment = name_of(user), body.comment
    return act(pool, body, user, lambda which: requests.suspend(pool, which, who=who, comment=comment))


@router.post("/unsuspend/{pool:path}", dependencies=[require_pool("PUT")])
def unsuspend(pool: PoolName, body: WhichIn, user: User) -> ChangedOut:
    """Let suspended waiters take part again."""
    who, comment = name_of(user), body.comment
    return act(pool, body, user, lambda which: requests.unsuspend(pool, which, who=who, comment=comment))


def act(pool: str, body: WhichIn, user: Any, lever: Callable[[list[Which]], list[QueueEntry]]) -> ChangedOut:
    """Make sure that something is meant and that the user may, then pull the lever once for all."""
    which = body.which()
    if not which:
        detail = "Say which requests: request_ids, dag_id, task_id, run_id, or all"
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_ENTITY, detail)
    check_requests(user, requests.dags_of(pool, which))
    return ChangedOut(requests=[request_out(e, visible=True, can_act=True) for e in lever(which)])

"""Requests of a group: who waits, who holds, and the levers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field

from airflow_slotgroups.api.auth import User, check_requests, may_act, name_of, require_pool, visible_to
from airflow_slotgroups.api.routes.groups import PoolName
from airflow_slotgroups.api.schemas import (
    INT32,
    ChangedOut,
    Id,
    PriorityIn,
    RequestId,
    RequestsOut,
    WhichIn,
    request_out,
)
from airflow_slotgroups.domain.discretion import MaySee
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.services import queue, requests
from airflow_slotgroups.services.queue import QueueEntry

router = APIRouter(tags=["Requests"])


class Filter(BaseModel):
    """Which requests are asked for, all of them when nothing is given; and which part of the list."""

    dag_id: Id | None = None
    task_id: Id | None = None
    run_id: Id | None = None
    request_id: RequestId | None = None
    search: str | None = Field(
        None,
        max_length=1000,
        description="a part of the names of DAG, task or run, as far as they may be seen",
    )
    limit: int = Field(100, ge=1, le=1000)
    offset: int = Field(0, ge=0, lt=INT32)

    def keep(self, may_see: MaySee) -> queue.Keep | None:
        """Translate; what may not be seen is not found by its name."""
        names = Which(dag_id=self.dag_id, task_id=self.task_id, run_id=self.run_id)
        part = (self.search or "").casefold()
        if not names.given() and not part and self.request_id is None:
            return None

        def keep(entry: QueueEntry) -> bool:
            if self.request_id not in (None, entry.request_id):
                return False
            said = (entry.dag_id, entry.task_id, entry.run_id)
            found = requests.means(names, entry) and any(part in name.casefold() for name in said)
            return found and (not (part or names.given()) or may_see(entry.dag_id))

        return keep


Filters = Annotated[Filter, Query()]


@router.get("/waiters/{pool:path}", dependencies=[require_pool("GET")])
def list_waiters(pool: PoolName, user: User, only: Filters) -> RequestsOut:
    """List who waits, in the order in which they are let in, each with its reason."""
    may_see = visible_to(user)
    return listed(queue.waiters_of(pool, only.limit, only.offset, only.keep(may_see)), user, may_see)


@router.get("/holders/{pool:path}", dependencies=[require_pool("GET")])
def list_holders(pool: PoolName, user: User, only: Filters) -> RequestsOut:
    """List who holds slots, the longest first."""
    may_see = visible_to(user)
    return listed(queue.holders_of(pool, only.limit, only.offset, only.keep(may_see)), user, may_see)


def listed(page: queue.Page, user: Any, may_see: MaySee) -> RequestsOut:
    """Translate a page; rows of DAGs that the reader may not see keep their places and have no names."""
    acts = may_act(user)
    shown = [request_out(e, may_see=may_see, can_act=acts(e.dag_id)) for e in page.entries]
    hidden = sum(not may_see(e.dag_id) for e in page.entries)
    return RequestsOut(requests=shown, total=page.total, hidden=hidden)


Lever = Callable[[list[Which], set[str]], list[QueueEntry]]
"""An action on the requests that are meant, of these DAGs alone."""


@router.post("/force-start/{pool:path}", dependencies=[require_pool("PUT")])
def force_start(pool: PoolName, body: WhichIn, user: User) -> ChangedOut:
    """Let waiters in at once, past queue and capacity; the reasons name what still holds them."""
    who, comment = name_of(user), body.comment

    def lever(which: list[Which], dags: set[str]) -> list[QueueEntry]:
        return requests.force_start(pool, which, who=who, comment=comment, dags=dags)

    return act(pool, body, user, lever)


@router.post("/prioritize/{pool:path}", dependencies=[require_pool("PUT")])
def prioritize(pool: PoolName, body: PriorityIn, user: User) -> ChangedOut:
    """Give waiters another priority, or put them before all others."""
    who, comment, priority = name_of(user), body.comment, body.priority

    def lever(which: list[Which], dags: set[str]) -> list[QueueEntry]:
        return requests.prioritize(pool, which, priority, who=who, comment=comment, dags=dags)

    return act(pool, body, user, lever)


@router.post("/suspend/{pool:path}", dependencies=[require_pool("PUT")])
def suspend(pool: PoolName, body: WhichIn, user: User) -> ChangedOut:
    """Pass waiters over; they keep their places."""
    who, comment = name_of(user), body.comment

    def lever(which: list[Which], dags: set[str]) -> list[QueueEntry]:
        return requests.suspend(pool, which, who=who, comment=comment, dags=dags)

    return act(pool, body, user, lever)


@router.post("/unsuspend/{pool:path}", dependencies=[require_pool("PUT")])
def unsuspend(pool: PoolName, body: WhichIn, user: User) -> ChangedOut:
    """Let suspended waiters take part again."""
    who, comment = name_of(user), body.comment

    def lever(which: list[Which], dags: set[str]) -> list[QueueEntry]:
        return requests.unsuspend(pool, which, who=who, comment=comment, dags=dags)

    return act(pool, body, user, lever)


def act(pool: str, body: WhichIn, user: Any, lever: Lever) -> ChangedOut:
    """Make sure that something is meant and that the user may, then pull the lever once for all.

    It acts on the DAGs that were asked about alone: a request of another one may come in between. A DAG that is
    named is asked about in any case, so that the answer does not tell whether it has requests here.
    """
    which = body.which()
    if not which:
        raise HTTPException(422, "Say which requests: request_ids, dag_id, task_id, run_id, or all")
    named = {body.dag_id} if body.dag_id is not None else set()
    check_requests(user, named)
    dags = requests.dags_of(pool, which)
    check_requests(user, dags)
    may_see = visible_to(user)
    return ChangedOut(
        requests=[request_out(entry, may_see=may_see, can_act=True) for entry in lever(which, dags)]
    )

"""What has been in a group, what people did to it, and who names its pool."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from airflow_slotgroups.api.auth import User, require_audit_log, require_pool, visible_to
from airflow_slotgroups.api.routes.groups import PoolName
from airflow_slotgroups.api.schemas import Id, RequestId
from airflow_slotgroups.api.schemas_past import (
    AuditOut,
    AuditPageOut,
    BucketOut,
    EndedOut,
    EndedPageOut,
    HistoryOut,
    UsingDagOut,
    WhereUsedOut,
)
from airflow_slotgroups.domain.states import RequestState
from airflow_slotgroups.services import audit, history
from airflow_slotgroups.services import where_used as using

router = APIRouter()

Hours = Annotated[float, Query(gt=0, le=history.MOST_HOURS)]
Buckets = Annotated[int, Query(ge=1, le=history.MOST_BUCKETS)]
Limit = Annotated[int, Query(ge=1, le=1000)]


class EndedFilter(BaseModel):
    """Which ended requests are asked for, and which part of the list."""

    hours: float = Field(24, gt=0, le=history.MOST_HOURS)
    dag_id: Id | None = None
    task_id: Id | None = None
    run_id: Id | None = None
    state: RequestState | None = Field(None, description="released or cancelled")
    limit: int = Field(100, ge=1, le=1000)
    offset: int = Field(0, ge=0, lt=2**31)


@router.get("/ended/{pool:path}", tags=["Requests"], dependencies=[require_pool("GET")])
def list_ended(pool: PoolName, user: User, asked: Annotated[EndedFilter, Query()]) -> EndedPageOut:
    """List the requests that have ended in the last hours, the last one first."""
    may_see = visible_to(user)
    only = history.EndedOnly(asked.dag_id, asked.task_id, asked.run_id, asked.state)
    page = history.ended_of(pool, asked.hours, asked.limit, asked.offset, only, may_see)
    shown = [EndedOut.of(ended, may_see(ended.dag_id)) for ended in page.entries]
    hidden = sum(not may_see(ended.dag_id) for ended in page.entries)
    return EndedPageOut(requests=shown, total=page.total, hidden=hidden)


@router.get("/history/{pool:path}", tags=["Groups"], dependencies=[require_pool("GET")])
def get_history(pool: PoolName, hours: Hours = 24, buckets: Buckets = 24) -> HistoryOut:
    """Tell what was in a group in each of so many equal stretches of the last hours, for charts."""
    return HistoryOut(buckets=[BucketOut.of(one) for one in history.history_of(pool, hours, buckets)])


@router.get("/where-used/{pool:path}", tags=["Groups"], dependencies=[require_pool("GET")])
def where_used(pool: PoolName, user: User) -> WhereUsedOut:
    """List the DAGs and tasks that name the pool of a group."""
    may_see = visible_to(user)
    found = using.where_used(pool)
    shown = [UsingDagOut.of(dag) for dag in found if may_see(dag.dag_id)]
    return WhereUsedOut(dags=shown, hidden=len(found) - len(shown))


@router.get("/audit/{pool:path}", tags=["Groups"], dependencies=[require_pool("GET"), require_audit_log()])
def list_audit(
    pool: PoolName, user: User, limit: Limit = 100, before: Annotated[RequestId | None, Query()] = None
) -> AuditPageOut:
    """List what people did to a group and its requests, the last action first."""
    may_see = visible_to(user)
    entries = audit.audit_of(pool, limit, before)
    more = entries[-1].id if len(entries) == limit else None
    return AuditPageOut(entries=[AuditOut.of(entry, may_see) for entry in entries], next_before=more)

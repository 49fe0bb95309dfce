"""What goes over the wire of what has been: ended requests, history, audit log; and where a pool is named."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, Field

from airflow_slotgroups.domain.discretion import MaySee
from airflow_slotgroups.domain.history import Bucket
from airflow_slotgroups.domain.states import Admission, EndReason, Kind, RequestState
from airflow_slotgroups.services.audit import AuditEntry
from airflow_slotgroups.services.history import EndedRequest
from airflow_slotgroups.services.where_used import UsingDag


def in_seconds(duration: timedelta | None) -> float | None:
    """A duration as a number."""
    return None if duration is None else duration.total_seconds()


class EndedOut(BaseModel):
    """A request that has ended. What the reader may not see of it is null."""

    request_id: int
    kind: Kind
    dag_id: str | None
    run_id: str | None
    task_id: str | None
    map_index: int | None
    try_number: int
    slots: int
    priority: int
    state: RequestState
    admission: Admission | None = Field(description="how it came in; null when it never did")
    end_reason: EndReason | None
    arrived_at: datetime
    granted_at: datetime | None
    ended_at: datetime
    waited_seconds: float | None
    held_seconds: float | None
    comment: str | None

    @classmethod
    def of(cls, ended: EndedRequest, visible: bool) -> EndedOut:
        """Translate."""
        return cls(
            request_id=ended.request_id,
            kind=ended.kind,
            dag_id=ended.dag_id if visible else None,
            run_id=ended.run_id if visible else None,
            task_id=ended.task_id if visible else None,
            map_index=ended.map_index if visible else None,
            try_number=ended.try_number,
            slots=ended.slots,
            priority=ended.priority,
            state=ended.state,
            admission=Admission(ended.admission) if ended.admission else None,
            end_reason=EndReason(ended.end_reason) if ended.end_reason else None,
            arrived_at=ended.arrived_at,
            granted_at=ended.granted_at,
            ended_at=ended.ended_at,
            waited_seconds=in_seconds(ended.waited),
            held_seconds=in_seconds(ended.held),
            comment=ended.comment if visible else None,
        )


class EndedPageOut(BaseModel):
    """A page of ended requests, the last one first."""

    requests: list[EndedOut]
    total: int
    hidden: int = Field(
        description="of this page, rows of DAGs that the reader may not see: counted, not named"
    )


class BucketOut(BaseModel):
    """What was in one stretch of time."""

    start: datetime
    end: datetime
    granted: int
    wait_median_seconds: float | None
    wait_p95_seconds: float | None
    hold_median_seconds: float | None
    hold_p95_seconds: float | None
    most_used: int
    most_waiting: int
    size: int | None = Field(description="at the end; -1 for no limit, null while there was no group")

    @classmethod
    def of(cls, bucket: Bucket) -> BucketOut:
        """Translate."""
        return cls(
            start=bucket.start,
            end=bucket.end,
            granted=bucket.granted,
            wait_median_seconds=in_seconds(bucket.wait.median),
            wait_p95_seconds=in_seconds(bucket.wait.p95),
            hold_median_seconds=in_seconds(bucket.hold.median),
            hold_p95_seconds=in_seconds(bucket.hold.p95),
            most_used=bucket.most_used,
            most_waiting=bucket.most_waiting,
            size=bucket.size,
        )


class HistoryOut(BaseModel):
    """Equal stretches of time, the oldest first."""

    buckets: list[BucketOut]


class AuditOut(BaseModel):
    """A manual action. What it was done to is null for a DAG that the reader may not see."""

    id: int
    at: datetime | None
    action: str
    who: str | None
    dag_id: str | None
    run_id: str | None
    task_id: str | None
    map_index: int | None
    old: dict[str, Any] | None
    new: dict[str, Any] | None
    comment: str | None

    @classmethod
    def of(cls, entry: AuditEntry, may_see: MaySee) -> AuditOut:
        """Translate."""
        visible = entry.dag_id is None or may_see(entry.dag_id)
        return cls(
            id=entry.id,
            at=entry.at,
            action=entry.action,
            who=entry.who,
            dag_id=entry.dag_id if visible else None,
            run_id=entry.run_id if visible else None,
            task_id=entry.task_id if visible else None,
            map_index=entry.map_index if visible else None,
            old=entry.details.get("old"),
            new=entry.details.get("new"),
            comment=entry.details.get("comment") if visible else None,
        )


class AuditPageOut(BaseModel):
    """Manual actions on a group and its requests, the last one first."""

    entries: list[AuditOut]
    next_before: int | None = Field(description="what to give as `before` for the next page; null at the end")


class UsingTaskOut(BaseModel):
    """A task that names the pool."""

    task_id: str
    slots: int
    outside: bool = Field(description="it names the running pool, and so runs outside the queue")


class UsingDagOut(BaseModel):
    """A DAG with the tasks that name the pool."""

    dag_id: str
    paused: bool
    tasks: list[UsingTaskOut]

    @classmethod
    def of(cls, dag: UsingDag) -> UsingDagOut:
        """Translate."""
        tasks = [UsingTaskOut(**vars(task)) for task in dag.tasks]
        return cls(dag_id=dag.dag_id, paused=dag.paused, tasks=tasks)


class WhereUsedOut(BaseModel):
    """The active DAGs that name the pool of a group, by name."""

    dags: list[UsingDagOut]
    hidden: int = Field(description="DAGs that the reader may not see: counted, not named")

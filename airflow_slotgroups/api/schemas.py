"""What goes over the wire. Times are aware and in UTC; durations are seconds, and say so in their names."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from airflow_slotgroups.domain.discretion import MaySee
from airflow_slotgroups.domain.names import MAX_NAME_LENGTH
from airflow_slotgroups.domain.order import MAX_AGEING_SECONDS
from airflow_slotgroups.domain.reasons import Code
from airflow_slotgroups.domain.states import Kind, Mode, RequestState, Strategy
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.services.groups import GroupChange
from airflow_slotgroups.services.health import Problem
from airflow_slotgroups.services.overview import Overview
from airflow_slotgroups.services.queue import QueueEntry

INT32 = 2**31
INT64 = 2**63
LONGEST_ID = 250
"""Characters of a DAG's, task's or run's name in Airflow's tables."""

Id = Annotated[str, Field(max_length=LONGEST_ID)]
MapIndex = Annotated[int, Field(ge=-1, lt=INT32)]
RequestId = Annotated[int, Field(ge=0, lt=INT64)]


class Body(BaseModel):
    """What comes in: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def without_nul(cls, data: Any) -> Any:
        """Refuse the one character that no database takes in a text."""
        if isinstance(data, dict) and any(isinstance(v, str) and "\x00" in v for v in data.values()):
            raise ValueError("no text has a NUL in it")
        return data


class ProblemOut(BaseModel):
    """Something that keeps tasks waiting, or may, and what to do."""

    code: str
    where: str
    text: str
    remedy: str

    @classmethod
    def of(cls, problem: Problem, may_see: MaySee) -> ProblemOut:
        """Translate, with the names that the reader may hear."""
        text = problem.text_for(may_see)
        return cls(code=problem.code, where=problem.where, text=text, remedy=problem.remedy)


class UseOut(BaseModel):
    """Slots in use, by what for."""

    running: int
    queued: int
    starting: int
    deferred: int
    sections: int
    outside: int
    total: int


class NextOut(BaseModel):
    """The waiter that is let in next."""

    request_id: int
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    slots: int


class GroupOut(BaseModel):
    """A slot group."""

    pool: str
    slots: int = Field(description="-1 for no limit")
    mode: Mode
    strategy: Strategy
    max_passes: int
    ageing_seconds: int
    description: str
    use: UseOut
    free: int | None = Field(description="none without a limit")
    overdraft: int
    waiting: int
    holding: int
    oldest_wait_since: datetime | None
    next_in: NextOut | None
    notice: str | None
    problems: list[ProblemOut]


class GroupsOut(BaseModel):
    """All groups, and whether anybody lets waiters in."""

    groups: list[GroupOut]
    coordinators_alive: int


def group_out(view: Overview, may_see: MaySee) -> GroupOut:
    """Translate; the next one is named to those alone who may see its DAG."""
    status = view.status
    visible = view.next_in is None or may_see(view.next_in.waiter.dag_id)
    return GroupOut(
        pool=status.pool,
        slots=status.slots,
        mode=status.mode,
        strategy=status.strategy,
        max_passes=status.max_passes,
        ageing_seconds=status.ageing_seconds,
        description=status.description,
        use=UseOut(**{share.value: slots for share, slots in view.shares.items()}, total=status.used),
        free=status.free,
        overdraft=status.overdraft,
        waiting=status.waiting,
        holding=status.holding,
        oldest_wait_since=view.waiting_since,
        next_in=next_out(view) if visible else None,
        notice=status.notice,
        problems=[ProblemOut.of(problem, may_see) for problem in view.problems],
    )


def next_out(view: Overview) -> NextOut | None:
    """Translate the next one."""
    if view.next_in is None:
        return None
    waiter = view.next_in.waiter
    return NextOut(
        request_id=waiter.id,
        dag_id=waiter.dag_id,
        run_id=waiter.run_id,
        task_id=waiter.task_id,
        map_index=waiter.map_index,
        slots=waiter.slots,
    )


class GroupChangeIn(Body):
    """What to change; what is left out stays."""

    slots: int | None = Field(None, ge=-1, lt=INT32)
    description: str | None = Field(None, max_length=10_000)
    strategy: Strategy | None = None
    max_passes: int | None = Field(None, ge=1, lt=INT32)
    ageing_seconds: int | None = Field(None, ge=0, le=MAX_AGEING_SECONDS)
    comment: str | None = Field(None, max_length=10_000)

    def change(self) -> GroupChange:
        """Translate."""
        return GroupChange(self.slots, self.description, self.strategy, self.max_passes, self.ageing_seconds)


class GroupIn(GroupChangeIn):
    """A new group."""

    pool: str = Field(min_length=1, max_length=MAX_NAME_LENGTH)
    slots: int = Field(ge=-1, lt=INT32)


class CommentIn(Body):
    """Why; kept in the audit log."""

    comment: str | None = Field(None, max_length=10_000)


class DissolveIn(CommentIn):
    """How to dissolve."""

    end_sections: bool = False


class EntryOut(BaseModel):
    """A group in a file; a pool of no team says nothing of teams."""

    slots: int = Field(description="-1 for no limit")
    description: str | None = None
    include_deferred: bool | None = Field(None, description="what its pool had before it was a group")
    team_name: str | None = None
    mode: Mode | None = None
    strategy: Strategy | None = None
    max_passes: int | None = None
    ageing_seconds: int | None = None


class ImportIn(CommentIn):
    """Groups to make or change, as an export has them; what an entry leaves out stays as it is."""

    groups: dict[str, Any] = Field(description="entries by the names of groups")
    adopt: bool = Field(False, description="take ordinary pools of those names over")
    source: str = Field("the request", max_length=250, description="where they are from, for the audit log")


class ImportOut(BaseModel):
    """What was done, by group."""

    done: dict[str, Literal["made", "changed", "adopted", "unchanged"]]


class WhichIn(CommentIn):
    """Which waiting requests are meant: by number, by task, by run, by DAG, or all of them."""

    request_ids: list[RequestId] = Field(default_factory=list, max_length=1000)
    dag_id: Id | None = None
    task_id: Id | None = None
    run_id: Id | None = None
    map_index: MapIndex | None = None
    all: bool = False

    def which(self) -> list[Which]:
        """Translate: one for each number, or one for the rest."""
        rest = Which(self.dag_id, self.task_id, self.run_id, self.map_index)
        if self.request_ids:
            return [
                Which(self.dag_id, self.task_id, self.run_id, self.map_index, number)
                for number in self.request_ids
            ]
        return [rest] if self.all or rest.given() else []


class PriorityIn(WhichIn):
    """The new priority, bigger goes first; null puts them before all others."""

    priority: int | None = Field(ge=-INT32, lt=INT32)


class EstimateOut(BaseModel):
    """Between which moments a waiter is likely to start, in seconds from now; never a promise."""

    earliest_seconds: float
    latest_seconds: float


class RequestOut(BaseModel):
    """A live request. What the reader may not see of it is null."""

    position: int | None = Field(description="place in the queue, from 1; none for a holder")
    state: RequestState
    kind: Kind
    request_id: int
    dag_id: str | None
    run_id: str | None
    task_id: str | None
    map_index: int | None
    try_number: int
    slots: int
    priority: int
    since: datetime
    seconds: float
    reason_code: Code | str
    reason: str | None
    notice: str | None
    can_act: bool = Field(description="whether the reader may force, prioritise or suspend it")
    estimate: EstimateOut | None = Field(
        None, description="from hold times of recent requests and the slots ahead; null when they are too few"
    )


class RequestsOut(BaseModel):
    """A page of requests."""

    requests: list[RequestOut]
    total: int
    hidden: int = Field(
        description="of this page, rows of DAGs that the reader may not see: counted, not named"
    )


HIDDEN_REASON = "a task of a DAG that you may not see"


def request_out(entry: QueueEntry, *, may_see: MaySee, can_act: bool) -> RequestOut:
    """Translate one request; a row of a DAG that the reader may not see keeps its place and says no names."""
    visible, estimate = may_see(entry.dag_id), entry.estimate
    return RequestOut(
        position=entry.position,
        state=entry.state,
        kind=entry.kind,
        request_id=entry.request_id,
        dag_id=entry.dag_id if visible else None,
        run_id=entry.run_id if visible else None,
        task_id=entry.task_id if visible else None,
        map_index=entry.map_index if visible else None,
        try_number=entry.try_number,
        slots=entry.slots,
        priority=entry.priority,
        since=entry.since,
        seconds=entry.seconds,
        reason_code=entry.reason_code,
        reason=entry.reason_for(may_see) if visible else HIDDEN_REASON,
        notice=entry.notice if visible else None,
        can_act=can_act,
        estimate=EstimateOut(**vars(estimate)) if estimate is not None else None,
    )


class ChangedOut(BaseModel):
    """The requests that were changed, as the queue shows them now."""

    requests: list[RequestOut]


class HealthOut(BaseModel):
    """Whether everything is served."""

    healthy: bool
    problems: list[ProblemOut]


class ErrorOut(BaseModel):
    """What is wrong, with which value, and what to do."""

    detail: str
    remedy: str | None = None
    can_retry: bool = False

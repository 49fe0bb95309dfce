"""Why does a task instance not run?"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from airflow_slotgroups.api.auth import User, check_readable, may_act, visible_to
from airflow_slotgroups.api.schemas import LONGEST_ID, MapIndex, RequestOut, request_out
from airflow_slotgroups.services.explain import explain_request

router = APIRouter(tags=["Explain"])


class CheckOut(BaseModel):
    """One limit with its value and its use."""

    name: str
    holds: bool
    text: str
    value: str
    use: str


class ExplanationOut(BaseModel):
    """First the one thing that holds the task instance now, then every limit.

    The group and the request are given when it has a live one; the request alone is null when it is too far
    behind for its place to be told.
    """

    sentence: str
    name: str
    checks: list[CheckOut]
    pool: str | None = None
    request: RequestOut | None = None


Name = Annotated[str, Query(max_length=LONGEST_ID)]


@router.get("/explain")
def explain(
    user: User, dag_id: Name, task_id: Name, run_id: Name, map_index: Annotated[MapIndex, Query()] = -1
) -> ExplanationOut:
    """Answer for any task instance, in a slot group or not."""
    check_readable(user, dag_id)
    may_see = visible_to(user)
    answer, stands = explain_request(dag_id, task_id, run_id, map_index, may_see)
    entry = stands.entry if stands is not None else None
    return ExplanationOut(
        sentence=answer.sentence,
        name=answer.name,
        checks=[CheckOut(**vars(check)) for check in answer.checks],
        pool=stands.pool if stands is not None else None,
        request=request_out(entry, may_see=may_see, can_act=may_act(user)(dag_id))
        if entry is not None
        else None,
    )

"""Why does a task instance not run?"""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from airflow_slotgroups.api.auth import User, check_readable
from airflow_slotgroups.services.explain import explain_task

router = APIRouter(tags=["Explain"])


class CheckOut(BaseModel):
    """One limit with its value and its use."""

    name: str
    holds: bool
    text: str
    value: str
    use: str


class ExplanationOut(BaseModel):
    """First the one thing that holds the task instance now, then every limit."""

    sentence: str
    name: str
    checks: list[CheckOut]


@router.get("/explain")
def explain(user: User, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> ExplanationOut:
    """Answer for any task instance, in a slot group or not."""
    check_readable(user, dag_id)
    answer = explain_task(dag_id, task_id, run_id, map_index)
    checks = [CheckOut(**vars(check)) for check in answer.checks]
    return ExplanationOut(sentence=answer.sentence, name=answer.name, checks=checks)

"""Is everything served?"""

from __future__ import annotations

from fastapi import APIRouter

from airflow_slotgroups.api.auth import require_pool
from airflow_slotgroups.api.schemas import HealthOut, ProblemOut
from airflow_slotgroups.services import health

router = APIRouter(tags=["Health"])


@router.get("/health", dependencies=[require_pool("GET")])
def get_health() -> HealthOut:
    """Say what keeps tasks waiting that should not, and what to do."""
    problems = health.check()
    return HealthOut(healthy=not problems, problems=[ProblemOut.of(problem) for problem in problems])

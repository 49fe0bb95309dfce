"""Is everything served, and by whom?"""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, Field

from airflow_slotgroups.api.auth import User, readable_pools, require_pool, visible_to
from airflow_slotgroups.api.schemas import HealthOut, ProblemOut
from airflow_slotgroups.services import health
from airflow_slotgroups.services.coordinators import CoordinatorStatus, coordinators

router = APIRouter(tags=["Health"])


class CoordinatorOut(BaseModel):
    """A coordinator as it last reported itself."""

    hostname: str
    pid: int
    scheduler_job_id: int | None = Field(description="the scheduler beside it; null when it runs alone")
    version: str
    started_at: datetime
    heartbeat_at: datetime
    last_cycle_at: datetime | None = Field(description="when a cycle last ended well")
    cycle_seconds: float | None
    alive: bool
    failing: bool = Field(description="its last cycle failed: see the log of the scheduler beside it")

    @classmethod
    def of(cls, status: CoordinatorStatus) -> CoordinatorOut:
        """Translate. The error itself may name DAGs that the reader may not see."""
        said = {name: value for name, value in vars(status).items() if name != "error"}
        return cls(**said, failing=status.error is not None)


class CoordinatorsOut(BaseModel):
    """All coordinators that were heard of within the last hour, the last one first."""

    coordinators: list[CoordinatorOut]


@router.get("/health", dependencies=[require_pool("GET")])
def get_health(user: User) -> HealthOut:
    """Say what keeps tasks waiting that should not, and what to do; of pools that the reader may see."""
    may_see, may_read = visible_to(user), readable_pools(user)
    problems = [p for p in health.check() if p.pool is None or may_read(p.pool)]
    return HealthOut(healthy=not problems, problems=[ProblemOut.of(one, may_see) for one in problems])


@router.get("/coordinators", dependencies=[require_pool("GET")])
def list_coordinators() -> CoordinatorsOut:
    """List who lets waiters in."""
    return CoordinatorsOut(coordinators=[CoordinatorOut.of(status) for status in coordinators()])

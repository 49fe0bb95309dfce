"""Teams, which own pools and DAGs in multi-team mode."""

from __future__ import annotations

from airflow.models.team import Team
from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.dags import multi_team


def team_exists(session: Session, name: str) -> bool:
    """Tell whether there is a team of that name."""
    return bool(session.scalar(select(exists().where(Team.name == name))))


__all__ = ["multi_team", "team_exists"]

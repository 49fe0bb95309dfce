"""Sessions on Airflow's database."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from airflow.utils.session import create_session
from sqlalchemy.orm import Session

SessionFactory = Callable[[], AbstractContextManager[Session]]
"""Opens a session that commits when its block ends well, and rolls back when it does not."""


def new_session() -> AbstractContextManager[Session]:
    """Open a session of its own, apart from the one that Airflow keeps for the thread."""
    return create_session(scoped=False)

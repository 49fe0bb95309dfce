"""The fast path of release stays out of other people's transactions on SQLite."""

from __future__ import annotations

from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from airflow_slotgroups.store.release import can_release_at_once


def test_sqlite_leaves_release_to_the_coordinator() -> None:
    """A savepoint with a read in it made the scheduler's next statement fail, and the scheduler die of it."""
    with Session(create_engine("sqlite://")) as session:
        assert not can_release_at_once(session)

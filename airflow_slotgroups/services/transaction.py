"""One manual action, one transaction, tried again while others hold the rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import is_locked, limit_waiting, wait_as_before
from airflow_slotgroups.airflow_core.sessions import new_session
from airflow_slotgroups.db_manager import check_tables
from airflow_slotgroups.domain.errors import BusyError

T = TypeVar("T")

PATIENCE = 15.0
"""Seconds that a person is made to wait for locks."""
PAUSE = 0.1


def read(query: Callable[[Session], T]) -> T:
    """Run a query in a session of its own.

    :raises TablesMissingError: our tables are not there.
    """
    with new_session() as session:
        check_tables(session)
        return query(session)


def transact(what: str, action: Callable[[Session], T]) -> T:
    """Run an action in a transaction of its own, whole or not at all.

    Every action is safe to repeat: a time-out for a lock rolls it back, and it starts anew.

    :param what: what is being done, for the error.
    :raises BusyError: the rows stayed locked for `PATIENCE` seconds.
    :raises TablesMissingError: our tables are not there.
    """
    deadline = time.monotonic() + PATIENCE
    read(lambda session: None)
    while True:
        try:
            with new_session() as session:
                limit_waiting(session)
                try:
                    return action(session)
                finally:
                    wait_as_before(session)
        except (BusyError, DBAPIError) as error:
            if isinstance(error, DBAPIError) and not is_locked(error):
                raise
            if time.monotonic() > deadline:
                raise BusyError(what) from error
        time.sleep(PAUSE)

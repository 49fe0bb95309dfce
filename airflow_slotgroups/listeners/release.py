"""The fast path of release: ends requests where Airflow says that a task or a run has ended.

Which hook fires where is a table in ARCHITECTURE.md. Whatever is missed here, the coordinator ends within a
cycle; so a hook that finds no database, or a locked row, does nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from airflow.listeners import hookimpl

log = logging.getLogger(__name__)


class ReleaseListener:
    """The listener that Airflow calls."""

    @hookimpl
    def on_task_instance_success(self, previous_state: Any, task_instance: Any) -> None:
        """A task instance was marked success."""
        quietly(end_try_of, task_instance)

    @hookimpl
    def on_task_instance_failed(self, previous_state: Any, task_instance: Any, error: Any) -> None:
        """A task instance was marked failed, or the scheduler handles its failure."""
        quietly(end_try_of, task_instance)

    @hookimpl
    def on_task_instance_skipped(self, previous_state: Any, task_instance: Any) -> None:
        """A task instance was marked skipped."""
        quietly(end_try_of, task_instance)

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        """A run has ended."""
        quietly(end_holds_of, dag_run)

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        """A run has ended, by hand or by its time-out too."""
        quietly(end_holds_of, dag_run)


def quietly(act: Callable[[Any, Any], None], row: Any) -> None:
    """Act in the transaction that the row belongs to, if it has one; raise nothing into Airflow."""
    try:
        session = session_of(row)
        if session is not None:
            act(session, row)
    except Exception:
        log.warning(
            "Slots were not released at once; the coordinator does it in its next cycle", exc_info=True
        )


def session_of(row: Any) -> Any:
    """The session of an ORM row; None in a task process, which has no database and no such rows."""
    if not hasattr(row, "_sa_instance_state"):
        return None
    from sqlalchemy.orm import object_session

    return object_session(row)


def end_try_of(session: Any, task_instance: Any) -> None:
    """End the request of that try."""
    from airflow_slotgroups.airflow_core.clock import utcnow
    from airflow_slotgroups.domain.states import EndReason
    from airflow_slotgroups.store.release import can_release_at_once, end_try

    if can_release_at_once(session):
        task = (
            task_instance.dag_id,
            task_instance.run_id,
            task_instance.task_id,
            task_instance.map_index,
        )
        note(end_try(session, task, task_instance.try_number, EndReason.ENDED, utcnow()))


def end_holds_of(session: Any, dag_run: Any) -> None:
    """End the holds of that run."""
    from airflow_slotgroups.airflow_core.clock import utcnow
    from airflow_slotgroups.store.release import can_release_at_once, end_holds_of_run

    if can_release_at_once(session):
        note(end_holds_of_run(session, dag_run.dag_id, dag_run.run_id, utcnow()))


def note(holds: Iterable[tuple[str, timedelta]]) -> None:
    """Tell the metrics of this process how long slots were held, as the coordinator does for those it ends."""
    from airflow_slotgroups.airflow_core.metrics import count, timing

    for pool, held in holds:
        count("releases", 1, pool)
        timing("hold", held, pool)

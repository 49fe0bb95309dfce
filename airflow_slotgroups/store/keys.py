"""How a request finds its task instance: by the lasting identity of a try, never by the instance's id."""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import ColumnElement, and_, exists, true

from airflow_slotgroups.airflow_core.tables import TI
from airflow_slotgroups.domain.states import Kind, RequestState
from airflow_slotgroups.models import SlotRequest as R

TASK = Kind.TASK.value
SECTION = Kind.SECTION.value
WAITING = RequestState.WAITING.value
GRANTED = RequestState.GRANTED.value

built_once = lru_cache(maxsize=64)
"""For functions that put SQL together from the names of groups, which are the same in cycle after cycle.

Putting a statement together takes longer than the database takes to answer it; what changes from cycle to
cycle is a parameter that is bound when the statement is sent.
"""


def same_task_instance() -> ColumnElement[bool]:
    """The request is for that task instance, whatever the try."""
    return and_(
        R.dag_id == TI.dag_id, R.run_id == TI.run_id, R.task_id == TI.task_id, R.map_index == TI.map_index
    )


def live() -> ColumnElement[bool]:
    """The request is waiting or granted; said so that the unique index is used."""
    return R.live == true()


def same_live_try() -> ColumnElement[bool]:
    """The request is live and for that very try."""
    return and_(same_task_instance(), live(), R.try_number == TI.try_number)


def is_granted() -> ColumnElement[bool]:
    """The task instance's present try holds slots."""
    # Said so, since the query around it may read requests too: another one than this.
    return exists().where(same_live_try(), R.state == GRANTED).correlate(TI)

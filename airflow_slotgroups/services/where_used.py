"""Which DAGs and tasks name the pool of a group?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.dags import NamedIn, tasks_naming
from airflow_slotgroups.domain.names import running_pool
from airflow_slotgroups.services.groups import find_group
from airflow_slotgroups.services.transaction import read


@dataclass(frozen=True)
class UsingTask:
    """A task that names the pool.

    :param outside: it names the running pool, and so runs outside the queue.
    """

    task_id: str
    slots: int
    outside: bool


@dataclass(frozen=True)
class UsingDag:
    """A DAG with the tasks that name the pool."""

    dag_id: str
    paused: bool
    tasks: tuple[UsingTask, ...]


def where_used(name: str) -> list[UsingDag]:
    """Return the DAGs that name the pool of a group, or its running pool, by name.

    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    """
    return read(lambda session: where_used_in(session, name))


def where_used_in(session: Session, name: str) -> list[UsingDag]:
    """Look through the active DAGs."""
    find_group(session, name)
    return by_dag(tasks_naming(session, (name, running_pool(name))), name)


def by_dag(found: Iterable[NamedIn], name: str) -> list[UsingDag]:
    """Put together the tasks of each DAG, which stand side by side."""
    dags = []
    for (dag_id, paused), tasks in groupby(found, key=attrgetter("dag_id", "dag_paused")):
        using = sorted(
            (UsingTask(t.task_id, t.slots, t.pool != name) for t in tasks), key=attrgetter("task_id")
        )
        dags.append(UsingDag(dag_id, paused, tuple(using)))
    return dags

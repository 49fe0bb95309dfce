"""What the planner looks at: one group, its use, and its waiters in the order of the queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from airflow_slotgroups.domain.states import Kind, Mode, Strategy

UNLIMITED = -1
"""The size of a group without a limit, as for Airflow's pools."""


class RunKey(NamedTuple):
    """A DAG run."""

    dag_id: str
    run_id: str


class TaskKey(NamedTuple):
    """A task, over all runs."""

    dag_id: str
    task_id: str


@dataclass(frozen=True)
class Group:
    """A slot group as it was read.

    :param size: slots, -1 for no limit.
    :param max_passes: how often smaller requests may pass one head (`backfill`).
    :param admits_from: nobody is let in before (right after adopting on a database without row locks).
    :param pool_exists: whether the pool that tasks name is there.
    """

    pool: str
    size: int
    mode: Mode = Mode.ACTIVE
    strategy: Strategy = Strategy.STRICT
    max_passes: int = 10
    admits_from: datetime | None = None
    pool_exists: bool = True


class Limit(NamedTuple):
    """One of Airflow's limits: how many are active, and how many may be (None: no limit)."""

    active: int = 0
    most: int | None = None

    def reached(self, more: int) -> bool:
        """Tell whether `more` on top of the active ones leave no place."""
        return self.most is not None and self.active + more >= self.most


@dataclass(frozen=True)
class Waiter:
    """A waiting request with what decides whether it may start.

    :param passes: how often it was passed while it was the head.
    :param not_before: put off until then, and
    :param notice: why: an earlier grant came to nothing.
    :param scheduled: the task instance still is that try, scheduled in the group's pool.
    :param run_state: state of the DAG run, None when it is gone.
    :param run_limit: max_active_tasks of the run.
    :param task_limit: max_active_tis_per_dag.
    :param task_run_limit: max_active_tis_per_dagrun.
    :param pool_team: team of the pool, and
    :param dag_team: of the DAG, in multi-team mode.
    """

    id: int
    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    kind: Kind = Kind.TASK
    slots: int = 1
    suspended: bool = False
    forced: bool = False
    passes: int = 0
    not_before: datetime | None = None
    notice: str | None = None
    scheduled: bool = True
    dag_exists: bool = True
    dag_paused: bool = False
    run_state: str | None = "running"
    run_limit: Limit = Limit()
    task_limit: Limit = Limit()
    task_run_limit: Limit = Limit()
    pool_team: str | None = None
    dag_team: str | None = None

    @property
    def run(self) -> RunKey:
        """The run it belongs to."""
        return RunKey(self.dag_id, self.run_id)

    @property
    def task(self) -> TaskKey:
        """The task it is an instance of."""
        return TaskKey(self.dag_id, self.task_id)


@dataclass(frozen=True)
class Snapshot:
    """One group at one moment.

    :param used: slots in use (DESIGN rule 1).
    :param waiters: in the order of the queue (rule 4).
    """

    group: Group
    used: int
    waiters: tuple[Waiter, ...]
    now: datetime

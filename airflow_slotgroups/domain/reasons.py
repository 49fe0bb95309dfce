"""Why a waiter waits: a code for machines, one sentence for people."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_slotgroups.domain.states import Word


class Code(Word):
    """Every answer that the planner gives for a request."""

    NEXT_IN = "next_in"
    """It is let in by this plan."""
    NO_ROOM = "no_room"
    """It is the head of the queue and does not fit yet."""
    BEHIND_HEAD = "behind_head"
    """Freed slots are kept for a request before it."""
    TOO_WIDE = "too_wide"
    """It needs more slots than the group has."""
    GROUP_PAUSED = "group_paused"
    DISSOLVING = "dissolving"
    SETTLING = "settling"
    """The group was adopted a moment ago, on a database without row locks."""
    POOL_MISSING = "pool_missing"
    WRONG_TEAM = "wrong_team"
    NOT_WAITING = "not_waiting"
    """The task instance waits no longer; the request ends within seconds."""
    SUSPENDED = "suspended"
    PUT_OFF = "put_off"
    """An earlier grant came to nothing: the scheduler did not start the task."""
    DAG_PAUSED = "dag_paused"
    RUN_NOT_RUNNING = "run_not_running"
    MAX_ACTIVE_TASKS = "max_active_tasks"
    MAX_ACTIVE_TIS_PER_DAG = "max_active_tis_per_dag"
    MAX_ACTIVE_TIS_PER_DAGRUN = "max_active_tis_per_dagrun"


@dataclass(frozen=True)
class Reason:
    """The one thing that holds a request now.

    :param dag_id: another DAG that the text names, and
    :param unnamed: the same without that name, for those who may not see it.
    """

    code: Code
    text: str
    dag_id: str | None = None
    unnamed: str | None = None

    def __str__(self) -> str:
        return self.text

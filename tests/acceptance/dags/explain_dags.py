"""One DAG for each limit that `explain` names; the gate `explain` ends what holds."""

from __future__ import annotations

from datetime import timedelta

from acceptance_parts import WaitDeferred, fail_while_shut, hold, hold_each, nap, queue_dag
from airflow.sdk import DAG

GATE = "explain"

with queue_dag("e_pool", "e_pool"):
    hold.override(task_id="first", priority_weight=2)(GATE)
    nap.override(task_id="second")(0)

with queue_dag("e_wide", "e_narrow"):
    nap.override(pool_slots=2)(0)

with queue_dag("e_missing", "e_nowhere"):
    nap(0)

with DAG("e_paused", schedule=None):
    nap(0)

with DAG("e_runs", schedule=None, max_active_runs=1):
    hold(GATE) >> nap(0)

with DAG("e_retry", schedule=None):
    fail_while_shut.override(retries=1, retry_delay=timedelta(hours=1))(GATE)

with DAG("e_tasks", schedule=None, max_active_tasks=1):
    hold.override(task_id="first", priority_weight=2)(GATE)
    nap.override(task_id="second")(0)

with DAG("e_task", schedule=None):
    hold_each.override(max_active_tis_per_dag=1).partial(gate=GATE).expand(number=[0, 1])

with DAG("e_task_run", schedule=None):
    hold_each.override(max_active_tis_per_dagrun=1).partial(gate=GATE).expand(number=[0, 1])

with DAG("e_deferred", schedule=None):
    WaitDeferred(task_id="deferring", gate=GATE)

with queue_dag("e_group", "e_group"):
    hold.override(task_id="first", priority_weight=3)(GATE)
    nap.override(task_id="second", priority_weight=2)(0)
    nap.override(task_id="third", priority_weight=1)(0)

with DAG("e_cluster", schedule=None):
    hold_each.partial(gate=GATE).expand(number=list(range(6)))

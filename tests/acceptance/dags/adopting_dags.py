"""S36, S70, S72: pools that were there before, and are edited by hand."""

from __future__ import annotations

from datetime import timedelta

from acceptance_parts import INSIDE, WaitDeferred, fail_first, hold, hold_each, hold_run, nap_each, queue_dag
from airflow.sdk import DAG

from airflow_slotgroups.operators import HoldSlots

with queue_dag("s36_outside", "s36.running"):
    hold_run("s36")

with queue_dag("s36_queue", "s36"):
    hold("s36")

with queue_dag("s70", "s70"):
    WaitDeferred(task_id="deferring", gate="s70", priority_weight=10)
    fail_first.override(priority_weight=9, retries=1, retry_delay=timedelta(seconds=20))(1)
    hold.override(task_id="hold0", priority_weight=8)("s70")
    hold.override(task_id="hold1", priority_weight=8)("s70")
    hold_each.override(priority_weight=1).partial(gate="s70").expand(number=list(range(6)))

with DAG("s70_section", schedule=None, default_args=INSIDE), HoldSlots("section", pool="s70_section"):
    hold.override(task_id="inside")("s70_section")

with queue_dag("s70_flow", "s70_flow", max_active_tasks=50):
    nap_each.partial(seconds=0.2).expand(number=list(range(20)))

with queue_dag("s72", "s72"):
    hold_each.partial(gate="s72").expand(number=list(range(9)))

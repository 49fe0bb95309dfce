"""S20, S25, S60, S61, S62, S67, S77: scenarios that need an Airflow for themselves."""

from __future__ import annotations

from datetime import timedelta

from acceptance_parts import hold, hold_each, nap, nap_each, queue_dag
from airflow.sdk import DAG

from airflow_slotgroups.operators import HoldSlots

MANY = 200

for name in ("s20", "s20_plain"):
    with queue_dag(name, name, max_active_tasks=MANY):
        nap_each.partial(seconds=0.1).expand(number=list(range(100)))

with queue_dag("s25", "s25", max_active_tasks=MANY):
    nap_each.override(retries=20, retry_delay=timedelta(seconds=1)).partial(seconds=0.5).expand(
        number=list(range(60))
    )

with queue_dag("s60", "s60"):
    for priority in (1, 2, 3):
        nap.override(
            task_id=f"p{priority}", priority_weight=priority, execution_timeout=timedelta(seconds=3)
        )(0.2)

with queue_dag("s61", "s61"):
    nap(0.1)

with DAG("s61_plain", schedule=None):
    nap(0.1)

with queue_dag("s77_orphan", "s77_orphan"):
    nap(0.1)

with DAG("s62_section", schedule=None), HoldSlots("section", pool="s62"):
    nap(0.1)

with queue_dag("s62", "s62"):
    nap(0.1)

# They are killed with their scheduler, and run again.
AGAIN = {"retries": 5, "retry_delay": timedelta(seconds=1)}

with queue_dag("s67_holders", "s67"):
    hold_each.override(priority_weight=9, **AGAIN).partial(gate="s67").expand(number=list(range(3)))

with DAG("s67_section", schedule=None), HoldSlots("section", pool="s67", priority=9):
    hold.override(task_id="inside", **AGAIN)("s67")

with queue_dag("s67_waiters", "s67", max_active_tasks=MANY):
    nap_each.partial(seconds=0.1).expand(number=list(range(20)))

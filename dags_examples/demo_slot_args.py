"""The six tasks of demo_priorities.py with slot_args: pool, slots and priority in one call.

slot_args returns Airflow's own arguments (pool, pool_slots, priority_weight with weight_rule "absolute") after it
has checked them, and adds what Airflow has no argument for: max_wait.
"""

from __future__ import annotations

import time

from airflow.sdk import DAG, task

from airflow_slotgroups import slot_args

with DAG(
    dag_id="demo_slot_args",
    schedule=None,
    tags=["slotgroups"],
    # For all tasks that say nothing else: one slot, priority 1.
    default_args=slot_args("demo_warehouse", priority=1),
):

    @task
    def load() -> None:
        """Stands for a query that keeps the warehouse busy."""
        time.sleep(0.3)

    load.override(task_id="priority_1")()
    for priority in range(2, 7):
        arguments = slot_args("demo_warehouse", priority=priority)
        load.override(task_id=f"priority_{priority}", **arguments)()

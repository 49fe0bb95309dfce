"""Wide and narrow tasks: pool_slots says how many slots of the group one task takes.

The group's strategy is strict unless it is told otherwise: freed slots are kept for the head of the queue,
so the wide tasks, which come first by priority, do not starve behind a stream of narrow ones.
"""

from __future__ import annotations

import time

from airflow.sdk import DAG, task

with DAG(
    dag_id="demo_wide_and_narrow",
    schedule=None,
    tags=["slotgroups"],
    default_args={"pool": "demo_warehouse", "weight_rule": "absolute"},
):

    @task
    def load(seconds: float) -> None:
        """Stands for a load that takes one or several slots."""
        time.sleep(seconds)

    load.override(task_id="whole_warehouse", pool_slots=3, priority_weight=5)(1.0)
    for number in range(2):
        load.override(task_id=f"wide_{number}", pool_slots=2, priority_weight=3)(0.8)
    for number in range(5):
        load.override(task_id=f"narrow_{number}", priority_weight=1)(0.4)

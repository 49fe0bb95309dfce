"""Six tasks that are ready at once, on a group of three slots: 6, 5 and 4 go first.

An ordinary DAG: it knows nothing of groups. It names a pool, as ever; when that pool is a group, its tasks
queue. demo_slot_args.py is the same with slot_args.
"""

from __future__ import annotations

import time

from airflow.sdk import DAG, task

with DAG(
    dag_id="demo_priorities",
    schedule=None,
    tags=["slotgroups"],
    # "absolute" makes priority_weight a plain number, without the weights of the tasks downstream.
    default_args={"pool": "demo_warehouse", "weight_rule": "absolute"},
):

    @task
    def load() -> None:
        """Stands for a query that keeps the warehouse busy."""
        time.sleep(1.5)

    for priority in range(1, 7):
        load.override(task_id=f"priority_{priority}", priority_weight=priority)()

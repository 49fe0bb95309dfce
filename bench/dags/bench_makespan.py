"""Forty tasks of one second on four slots, once through a slot group and once through an ordinary pool."""

from __future__ import annotations

import time

from airflow.sdk import DAG, task

for name in ("bench_group", "bench_pool"):
    with DAG(dag_id=name, schedule=None, max_active_tasks=64, default_args={"pool": name}):

        @task
        def work() -> None:
            """Stands for something that takes a second."""
            time.sleep(1)

        for number in range(40):
            work.override(task_id=f"task_{number:02}")()

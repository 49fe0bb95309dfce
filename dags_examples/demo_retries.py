"""Retries: a task that fails gives its slot back, and queues again when its retry is due."""

from __future__ import annotations

import time
from datetime import timedelta

from airflow.sdk import DAG, get_current_context, task

with DAG(
    dag_id="demo_retries",
    schedule=None,
    tags=["slotgroups"],
    default_args={"pool": "demo_api", "priority_weight": 2, "weight_rule": "absolute"},
):

    @task(retries=1, retry_delay=timedelta(seconds=2))
    def flaky() -> None:
        """Fails at its first try, every time."""
        time.sleep(0.3)
        if get_current_context()["ti"].try_number == 1:
            raise RuntimeError("the API was busy; the second try will do")

    for number in range(3):
        flaky.override(task_id=f"flaky_{number}")()

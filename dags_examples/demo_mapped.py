"""Mapped tasks: each of the eight calls queues for itself, and at most two talk to the API at once."""

from __future__ import annotations

import time

from airflow.sdk import DAG, task

with DAG(dag_id="demo_mapped", schedule=None, tags=["slotgroups"]):

    @task(pool="demo_api", priority_weight=1, weight_rule="absolute")
    def fetch(page: int) -> int:
        """Stands for a call of an API that allows few connections."""
        time.sleep(0.5)
        return page

    fetch.expand(page=list(range(8)))

"""max_wait: a task that has waited too long fails, and the DAG says what happens then.

The first task keeps the only slot of demo_reports for longer than the second may wait. The second one fails
without having needed a slot or a worker, and its fallback runs; so the run succeeds.
"""

from __future__ import annotations

import time
from datetime import timedelta

from airflow.sdk import DAG, TriggerRule, task

from airflow_slotgroups import slot_args

with DAG(dag_id="demo_max_wait", schedule=None, tags=["slotgroups"]):

    @task
    def report(seconds: float) -> None:
        """Stands for work on a group of one slot."""
        time.sleep(seconds)

    @task(trigger_rule=TriggerRule.ONE_FAILED)
    def use_yesterdays_report() -> None:
        """Runs when the report could not be made in time."""

    report.override(task_id="long_report", **slot_args("demo_reports", priority=9))(4.0)

    patience = timedelta(seconds=1)
    in_time = report.override(task_id="in_time", **slot_args("demo_reports", priority=1, max_wait=patience))(
        0.1
    )
    in_time >> use_yesterdays_report()

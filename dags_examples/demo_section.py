"""A section: its slots are held from before its first task until after its last.

The group demo_reports has one slot. However many runs there are, no two of them write reports at the same time;
between two tasks of one run no other run slips in, as it would if each task asked for itself.
"""

from __future__ import annotations

import time

from airflow.sdk import DAG, task

from airflow_slotgroups import HoldSlots

with DAG(dag_id="demo_section", schedule=None, tags=["slotgroups"]):

    @task
    def write(part: str) -> str:
        """Stands for a step that must not meet another run's; it names no pool of its own."""
        time.sleep(0.3)
        return part

    with HoldSlots("month_end", pool="demo_reports", slots=1, priority=5):
        write.override(task_id="close_books")("books") >> write.override(task_id="publish")("report")

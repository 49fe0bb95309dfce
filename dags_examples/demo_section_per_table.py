"""A section per map index: the task group is mapped, and each index holds slots for itself.

demo_reports has one slot, so table after table is done as a whole: unload and load of one table stay together.
"""

from __future__ import annotations

import time

from airflow.sdk import DAG, task, task_group

from airflow_slotgroups import HoldSlots

with DAG(dag_id="demo_section_per_table", schedule=None, tags=["slotgroups"]):

    @task
    def unload(table: str) -> str:
        """Stands for the first half of a copy."""
        time.sleep(0.2)
        return table

    @task
    def load(table: str) -> None:
        """Stands for the second half."""
        time.sleep(0.2)

    @task_group
    def copy(table: str) -> None:
        """One index, one hold."""
        with HoldSlots("locked", pool="demo_reports", priority=3):
            load(unload(table))

    copy.expand(table=["customers", "orders"])

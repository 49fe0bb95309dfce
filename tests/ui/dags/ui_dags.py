"""One airflow DAG for each slot group of the browser's tests. A gate is a file: tests open it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from airflow.sdk import DAG, task

NAMES = ("drain", "force", "order", "pause", "tab", "view", "legacy", "bypass")


@task
def hold(gate: str) -> None:
    """Work that lasts until the gate is open."""
    gates = Path(os.environ["AIRFLOW_HOME"]) / "gates"
    while not (gates / gate).exists() and not (gates / "everything").exists():
        time.sleep(0.2)


for name in NAMES:
    with DAG(f"ui_{name}", schedule=None, default_args={"pool": f"ui_{name}", "weight_rule": "absolute"}):
        for number in range(1, 5):
            hold.override(task_id=f"p{number}", priority_weight=number * 10)(f"{name}_p{number}")

"""S40 and S43 to S47: what operators do to groups and waiters."""

from __future__ import annotations

from acceptance_parts import hold, nap, queue_dag
from airflow.providers.standard.operators.empty import EmptyOperator

with queue_dag("levers", "levers"):
    EmptyOperator(task_id="nothing")
    for number in range(1, 7):
        hold.override(task_id=f"t{number}", priority_weight=10 - number)(f"levers_t{number}")

with queue_dag("levers_late", "levers"):
    nap.override(task_id="late", priority_weight=100)(0.1)

with queue_dag("s40", "s40"):
    hold.override(task_id="holder", priority_weight=9)("s40")
    for name in ("failed", "success", "skipped", "cleared"):
        nap.override(task_id=name, priority_weight=1)(0.1)

"""S01, S02, S06, S07: who goes first."""

from __future__ import annotations

from acceptance_parts import hold, nap, nap_each, queue_dag

with queue_dag("s01", "s01"):
    for priority in range(1, 7):
        nap.override(task_id=f"p{priority}", priority_weight=priority)(0.8)

with queue_dag("s02", "s02"):
    for priority in (8, 9, 10):
        nap.override(task_id=f"p{priority}", priority_weight=priority)(0.3)

with queue_dag("s06_narrow", "s06", max_active_tasks=1):
    nap_each.override(priority_weight=10).partial(seconds=0.3).expand(number=list(range(500)))

with queue_dag("s06_other", "s06"):
    for number in range(5):
        nap.override(task_id=f"n{number}", priority_weight=1)(0.3)

with queue_dag("s07_holder", "s07"):
    hold("s07_a")

with queue_dag("s07_paused", "s07"):
    nap.override(priority_weight=10)(0.2)

with queue_dag("s07_others", "s07"):
    hold.override(task_id="first", priority_weight=2)("s07_b")
    for number in range(2):
        nap.override(task_id=f"n{number}", priority_weight=1)(0.2)

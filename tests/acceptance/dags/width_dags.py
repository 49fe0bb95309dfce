"""S04, S05, S21, S22, S23: wide and narrow tasks, sizes that change."""

from __future__ import annotations

from acceptance_parts import hold, hold_each, nap, queue_dag

MANY = 2000

for name in ("s04_strict", "s04_backfill"):
    with queue_dag(f"{name}_narrow", name):
        hold.override(task_id="hold_a", priority_weight=2)(f"{name}_a")
        hold.override(task_id="hold_b", priority_weight=2)(f"{name}_b")
        for number in range(20):
            nap.override(task_id=f"n{number}", priority_weight=1)(0.2)
    with queue_dag(f"{name}_wide", name):
        nap.override(task_id="wide", pool_slots=2, priority_weight=10)(0.3)

with queue_dag("s05_holder", "s05_a"):
    hold.override(pool_slots=19, priority_weight=3)("s05")

with queue_dag("s05_a", "s05_a", max_active_tasks=MANY):
    hold_each.override(priority_weight=2).partial(gate="s05").expand(number=list(range(1000)))

with queue_dag("s05_b", "s05_b", max_active_tasks=MANY):
    hold_each.override(pool_slots=5, priority_weight=1).partial(gate="s05").expand(number=list(range(100)))

with queue_dag("s21", "s21"):
    for task_id, slots, priority in (("first", 12, 3), ("second", 12, 2), ("third", 16, 1)):
        nap.override(task_id=task_id, pool_slots=slots, priority_weight=priority)(0.5)

with queue_dag("s22", "s22"):
    nap.override(task_id="wide", pool_slots=4, priority_weight=10)(0.3)
    for number in range(3):
        nap.override(task_id=f"n{number}", priority_weight=1)(0.2)

with queue_dag("s23_shrink", "s23_shrink"):
    for number in range(4):
        hold.override(task_id=f"hold{number}", priority_weight=5)("s23_four")
    hold.override(task_id="last", priority_weight=5)("s23_last")
    for number in range(2):
        nap.override(task_id=f"n{number}", priority_weight=1)(0.2)

with queue_dag("s23_grow", "s23_grow"):
    hold_each.partial(gate="s23_grow").expand(number=list(range(12)))

"""S03: two hundred tasks of one priority, with random names."""

from __future__ import annotations

from random import Random

from acceptance_parts import nap, queue_dag

RANDOM = Random(3)

with queue_dag("s03", "s03", max_active_tasks=300):
    for number in range(200):
        nap.override(task_id=f"{RANDOM.randbytes(4).hex()}_{number}")(0.1)

"""S34, S35, S63: tasks that defer on their own account."""

from __future__ import annotations

from datetime import timedelta

from acceptance_parts import SleepDeferred, WaitDeferred, hold_each, nap_each, queue_dag

MANY = 6000

# Airflow fails a task that is back from its deferral before the scheduler has read that its first part ended;
# it happens when the scheduler is slow, in any pool. So the deferral lasts a while, and there are retries.
BACK_TOO_EARLY = {"retries": 3, "retry_delay": timedelta(seconds=1)}

with queue_dag("s34", "s34", max_active_tasks=20):
    for number in range(16):
        SleepDeferred(task_id=f"d{number}", seconds=1.5, **BACK_TOO_EARLY)

with queue_dag("s35_holder", "s35"):
    WaitDeferred(task_id="deferring", gate="s35")

with queue_dag("s35_waiters", "s35", max_active_tasks=100):
    nap_each.override(priority_weight=10).partial(seconds=0.2).expand(number=list(range(30)))

with queue_dag("s63_waiters", "s63", max_active_tasks=MANY):
    for part in range(5):
        hold_each.override(task_id=f"part{part}").partial(gate="s63").expand(number=list(range(1000)))

with queue_dag("s63_deferring", "s63_plain"):
    SleepDeferred(task_id="deferring", seconds=1.5, **BACK_TOO_EARLY)

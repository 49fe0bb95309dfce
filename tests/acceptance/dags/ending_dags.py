"""S26, S30, S33, S41, S75, S76, S77: how a slot comes back, and who never takes one."""

from __future__ import annotations

from datetime import timedelta

from acceptance_parts import (
    die_slowly,
    fail_first,
    fail_first_each,
    fail_while_shut,
    hold,
    hold_each,
    nap,
    nap_each,
    queue_dag,
)
from airflow.providers.standard.operators.empty import EmptyOperator

with queue_dag("s30_holder", "s30"):
    hold("s30")

with queue_dag("s30", "s30"):
    EmptyOperator(task_id="before") >> EmptyOperator(task_id="after")

with queue_dag("s33_retries", "s33"):
    fail_first.override(retries=3, retry_delay=timedelta(seconds=3), priority_weight=5)(3)

with queue_dag("s33_filler", "s33"):
    for number in range(5):
        nap.override(task_id=f"n{number}", priority_weight=1)(0.2)

with queue_dag("s41", "s41"):
    hold.override(priority_weight=2)("s41")
    nap.override(execution_timeout=timedelta(seconds=4), priority_weight=1)(2.0)

with queue_dag("s75", "s75"):
    nap_each.override(max_active_tis_per_dag=1, priority_weight=5).partial(seconds=0.3).expand(
        number=list(range(4))
    )

with queue_dag("s75_other", "s75"):
    for number in range(2):
        nap.override(task_id=f"n{number}", priority_weight=1)(0.3)

with queue_dag("s76_at_once", "s76"):
    fail_first_each.override(retries=1, retry_delay=timedelta(0)).partial(tries=1).expand(
        number=list(range(24))
    )

with queue_dag("s76_later", "s76"):
    fail_first_each.override(retries=1, retry_delay=timedelta(seconds=5)).partial(tries=1).expand(
        number=list(range(24))
    )

with queue_dag("s77_race", "s77_race"):
    nap_each.partial(seconds=0.2).expand(number=list(range(8)))

with queue_dag("s77_slow", "s77_slow"):
    die_slowly.override(task_id="slow", priority_weight=2)(3.0, "s77_slow")
    nap.override(task_id="waiter", priority_weight=1)(0.2)

for way in ("failed", "success", "clear", "delete_run", "delete_dag"):
    name = f"s26_{way}"
    with queue_dag(name, name):
        hold.override(task_id="first", priority_weight=10)(name)
        hold.override(task_id="second", priority_weight=10)(name)
        fail_while_shut.override(
            task_id="retries", priority_weight=9, retries=2, retry_delay=timedelta(minutes=5)
        )(name)
        hold_each.override(priority_weight=1).partial(gate=name).expand(number=list(range(6)))
    with queue_dag(f"{name}_next", name):
        nap(0.1)

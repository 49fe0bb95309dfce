"""S71: fifty DAGs that know nothing of slot groups; their tasks name no pool."""

from __future__ import annotations

from acceptance_parts import hold_each, nap
from airflow.sdk import DAG

with DAG("s71_holder", schedule=None):
    hold_each.override(priority_weight=100, weight_rule="absolute").partial(gate="s71").expand(
        number=list(range(4))
    )

for number in range(50):
    with DAG(f"s71_{number:02d}", schedule=None):
        nap.override(priority_weight=number % 5, weight_rule="absolute")(0.1)

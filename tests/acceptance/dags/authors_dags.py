"""S08, S09, S32, S42, S49 to S52, S62: what DAG files say of slots, and sections."""

from __future__ import annotations

from datetime import timedelta

from acceptance_parts import INSIDE, fail_first, gate_file, hold, hold_run, nap, nap_each, queue_dag
from airflow.sdk import DAG, TaskGroup, get_current_context, task

from airflow_slotgroups.operators import AcquireSlotsOperator, HoldSlots, ReleaseSlotsOperator, slot_args

for name in ("s08_aged", "s08_plain"):
    with queue_dag(f"{name}_holder", name):
        hold(name)
    with queue_dag(f"{name}_old", name):
        nap.override(task_id="old", priority_weight=1)(0.1)
    with queue_dag(f"{name}_new", name):
        nap.override(task_id="new", priority_weight=5)(0.1)

with DAG("s09", schedule=None, default_args=slot_args("s09", priority=3)):
    nap.override(task_id="of_dag")(0.1)
    nap.override(task_id="of_operator", priority_weight=7)(0.1)
    nap.override(task_id="of_slot_args", **slot_args("s09", priority=11))(0.1)
    nap_each.override(task_id="mapped", **slot_args("s09", priority=13)).partial(seconds=0.1).expand(
        number=[0, 1]
    )
    fail_first.override(
        task_id="retried", retries=1, retry_delay=timedelta(seconds=1), **slot_args("s09", priority=17)
    )(1)
    with TaskGroup("group", default_args=slot_args("s09", priority=5)):
        nap.override(task_id="of_group")(0.1)

with DAG("s09_weights", schedule=None, default_args=slot_args("s09")):
    # priority_weight 1 each, added up over what is behind: the default weight_rule.
    nap.override(task_id="first")(0.1) >> nap.override(task_id="second")(0.1)


# Airflow fails a task that is due again before the scheduler has read that its first part ended; it happens
# when the scheduler is slow, in any pool. So it comes again after a while.
@task.sensor(mode="reschedule", poke_interval=8, timeout=600)
def look_at_gate(gate: str) -> bool:
    """Comes again and again until the gate is open."""
    return gate_file(gate).exists()


with queue_dag("s32", "s32"):
    look_at_gate.override(task_id="sensor", priority_weight=2)("s32")
    nap_each.partial(seconds=0.2).expand(number=list(range(3)))


def tell(context: object) -> None:
    """A callback leaves a sign."""
    gate_file("s42.failed").touch()


with queue_dag("s42_holder", "s42"):
    hold("s42")

with DAG("s42", schedule=None):
    nap.override(
        task_id="impatient",
        retries=1,
        retry_delay=timedelta(seconds=1),
        on_failure_callback=tell,
        **slot_args("s42", max_wait=timedelta(seconds=5)),
    )(0.1)

with queue_dag("s49_holder", "s49"):
    hold("s49")

with DAG("s49", schedule=None, default_args=INSIDE):
    with HoldSlots("section", pool="s49"):
        nap.override(task_id="inside")(0.1)
    nap.override(task_id="of_group", **slot_args("s49"))(0.1)


@task
def fail_in_run(which: str) -> None:
    """Fails in one run."""
    if get_current_context()["run_id"] == which:
        raise RuntimeError("fails on purpose")


with (
    DAG("s50", schedule=None, max_active_runs=3, default_args=INSIDE),
    HoldSlots("section", pool="s50", priority=5),
):
    (
        nap.override(task_id="a")(0.3)
        >> fail_in_run.override(task_id="b")("two")
        >> nap.override(task_id="c")(0.3)
    )

with queue_dag("s50_outside", "s50"):
    nap.override(task_id="outside", priority_weight=1)(0.2)

for name in ("s51_failed", "s51_paused", "s51_deleted", "s51_timeout"):
    timeout = timedelta(seconds=25) if name == "s51_timeout" else None
    with (
        DAG(name, schedule=None, dagrun_timeout=timeout, default_args=INSIDE),
        HoldSlots("section", pool=name),
    ):
        hold.override(task_id="inside")(name)
    with queue_dag(f"{name}_next", name):
        nap(0.1)

with DAG("s51_clear", schedule=None, default_args=INSIDE), HoldSlots("section", pool="s51_clear"):
    nap.override(task_id="first")(0.1) >> hold_run.override(task_id="second")("s51_clear")

with queue_dag("s51_clear_next", "s51_clear"):
    nap(0.1)

# Whatever may stand in default_args, around a section written by hand.
with DAG(
    "s52",
    schedule=None,
    default_args={
        **INSIDE,
        "execution_timeout": timedelta(seconds=2),
        "max_active_tis_per_dag": 1,
        "on_success_callback": tell,
        "on_execute_callback": tell,
        "retries": 1,
    },
):
    acquire = AcquireSlotsOperator(task_id="acquire", pool="s52")
    release = ReleaseSlotsOperator(task_id="release")
    acquire >> nap.override(task_id="inside")(0.1) >> release

with queue_dag("s52_holder", "s52"):
    hold("s52")

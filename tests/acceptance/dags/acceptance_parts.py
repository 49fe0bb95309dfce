"""What the DAGs of the scenarios are made of. A gate is a file: tests open it when they have seen enough."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.triggers.file import FileTrigger
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import DAG, BaseOperator, get_current_context, task

INSIDE = {"pool": "inside"}
"""For the tasks of sections: an ordinary pool that no scenario makes a group of."""


def queue_dag(dag_id: str, pool: str, **settings: Any) -> DAG:
    """A DAG whose tasks name a pool, and whose priority_weight is a plain number."""
    defaults = {"pool": pool, "weight_rule": "absolute", **settings.pop("default_args", {})}
    return DAG(dag_id, schedule=None, default_args=defaults, **settings)


def gate_file(name: str) -> Path:
    """The file whose presence means that the gate is open."""
    return Path(os.environ["AIRFLOW_HOME"]) / "gates" / name


def pass_gate(name: str) -> None:
    """Wait until the gate is open, or all of them at the end of the tests."""
    while not gate_file(name).exists() and not gate_file("everything").exists():
        time.sleep(0.1)


@task
def nap(seconds: float) -> None:
    """Short work."""
    time.sleep(seconds)


@task
def hold(gate: str) -> None:
    """Work that lasts until the gate is open."""
    pass_gate(gate)


@task
def hold_run(gate: str) -> None:
    """Work that lasts until the gate of its run is open."""
    pass_gate(f"{gate}_{get_current_context()['run_id']}")


@task
def hold_each(gate: str, number: int) -> None:
    """The same, to be expanded over numbers."""
    pass_gate(gate)


@task
def nap_each(seconds: float, number: int) -> None:
    """Short work, to be expanded over numbers."""
    time.sleep(seconds)


@task
def fail_first(tries: int) -> None:
    """Fails in the first so many tries."""
    if get_current_context()["ti"].try_number <= tries:
        raise RuntimeError("fails on purpose")


@task
def fail_first_each(tries: int, number: int) -> None:
    """The same, to be expanded over numbers."""
    if get_current_context()["ti"].try_number <= tries:
        raise RuntimeError("fails on purpose")


@task
def fail_while_shut(gate: str) -> None:
    """Fails as long as the gate is shut."""
    if not gate_file(gate).exists():
        raise RuntimeError("fails on purpose")


@task
def die_slowly(seconds: float, name: str) -> None:
    """In its first try it runs until it is told to end, and takes its time to do so; tells its process id."""
    process, dying = gate_file(f"{name}.pid"), gate_file(f"{name}.dying")
    if process.exists():
        return
    signal.signal(signal.SIGTERM, lambda _number, _frame: dying.touch())
    process.write_text(str(os.getpid()))
    while not dying.exists():
        time.sleep(0.05)
    time.sleep(seconds)


class SleepDeferred(BaseOperator):
    """Defers once, for a moment."""

    def __init__(self, seconds: float, **settings: Any) -> None:
        super().__init__(**settings)
        self.seconds = seconds

    def execute(self, context: Any) -> None:
        """Hand over to the triggerer."""
        self.defer(trigger=TimeDeltaTrigger(timedelta(seconds=self.seconds)), method_name="resume")

    def resume(self, context: Any, event: Any = None) -> None:
        """Come back to a worker."""


class WaitDeferred(BaseOperator):
    """Defers until a gate is open."""

    def __init__(self, gate: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.gate = gate

    def execute(self, context: Any) -> None:
        """Hand over to the triggerer."""
        trigger = FileTrigger(filepath=str(gate_file(self.gate)), poke_interval=0.2)
        self.defer(trigger=trigger, method_name="resume")

    def resume(self, context: Any, event: Any = None) -> None:
        """Come back to a worker."""

"""SlotTrigger, and what the public names bring along."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from airflow.sdk.exceptions import TaskDeferred
from airflow.triggers.base import TriggerEvent

import airflow_slotgroups
from airflow_slotgroups import AcquireSlotsOperator, HoldSlots, ReleaseSlotsOperator, slot_args
from airflow_slotgroups.domain.names import RELEASE_OPERATOR, SLOT_TRIGGER_PATH
from airflow_slotgroups.triggers import SlotTrigger


async def events_of(trigger: SlotTrigger) -> list[TriggerEvent]:
    return [event async for event in trigger.run()]


async def first_event(events: AsyncIterator[TriggerEvent]) -> TriggerEvent:
    return await anext(events)


def test_run_inline_it_yields_at_once_and_ends() -> None:
    assert asyncio.run(events_of(SlotTrigger())) == [TriggerEvent({"inline": True})]


def test_on_a_triggerer_it_never_yields() -> None:
    trigger = SlotTrigger()
    trigger.trigger_id = 7

    async def wait() -> None:
        await asyncio.wait_for(first_event(trigger.run()), timeout=0.05)

    with pytest.raises((TimeoutError, asyncio.TimeoutError)):
        asyncio.run(wait())


def test_its_class_path_is_where_it_is_and_never_changes() -> None:
    """It is stored in databases: an acquire that waits while the package is upgraded goes by it (S67)."""
    assert SLOT_TRIGGER_PATH == "airflow_slotgroups.triggers.slots.SlotTrigger"
    assert f"{SlotTrigger.__module__}.{SlotTrigger.__qualname__}" == SLOT_TRIGGER_PATH


def test_it_is_stored_without_arguments() -> None:
    assert SlotTrigger().serialize() == (SLOT_TRIGGER_PATH, {})


def test_an_acquire_that_nobody_has_deferred_defers_itself() -> None:
    """`dag.test()` knows nothing of start_from_trigger (S49)."""
    acquire = AcquireSlotsOperator(task_id="acquire", pool="warehouse")

    with pytest.raises(TaskDeferred) as deferred:
        acquire.execute({})

    assert isinstance(deferred.value.trigger, SlotTrigger)
    assert deferred.value.method_name == "execute_complete"
    assert deferred.value.timeout is None
    acquire.execute_complete({}, {"inline": True})


def test_a_release_does_nothing() -> None:
    ReleaseSlotsOperator(task_id="release").execute({})


def test_the_operators_class_is_the_one_that_the_database_names() -> None:
    assert ReleaseSlotsOperator.__name__ == RELEASE_OPERATOR


def test_the_public_names() -> None:
    assert airflow_slotgroups.__all__ == [
        "AcquireSlotsOperator",
        "HoldSlots",
        "ReleaseSlotsOperator",
        "slot_args",
    ]
    for public in (AcquireSlotsOperator, HoldSlots, ReleaseSlotsOperator, slot_args):
        assert getattr(airflow_slotgroups, public.__name__) is public
        assert public.__doc__


def test_a_name_that_is_not_public_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'airflow_slotgroups' has no attribute 'HoldSlot'"):
        _ = airflow_slotgroups.HoldSlot


IMPORT_ALL = """
import json, sys
from airflow_slotgroups import AcquireSlotsOperator, HoldSlots, ReleaseSlotsOperator, slot_args
print(json.dumps(sorted(name for name in sys.modules if name.startswith("airflow_slotgroups"))))
"""


def test_a_dag_file_loads_no_tables_of_ours(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONWARNINGS": "default"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    loaded = json.loads(done.stdout.splitlines()[-1])

    # Airflow itself reads the provider.
    parts = {name.split(".")[1] for name in loaded if "." in name} - {"provider"}
    assert parts == {"domain", "operators", "triggers"}

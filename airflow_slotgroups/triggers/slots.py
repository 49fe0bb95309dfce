"""Waiting for slots in state `deferred`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_slotgroups.domain.names import SLOT_TRIGGER_PATH


class SlotTrigger(BaseTrigger):
    """Waits until the coordinator ends its task.

    On a triggerer it sleeps and never yields: only the coordinator fires its event, as Airflow's own API does
    for human-in-the-loop tasks. Run inline, by `dag.test()`, there is nobody to wait for.
    """

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and no arguments: all data come from the task instance's row."""
        return SLOT_TRIGGER_PATH, {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Sleep, or pass through at once when run inline."""
        # A triggerer gives each trigger its id; inline there is none, and dag.test() would hang.
        if self.trigger_id is not None:
            await asyncio.Event().wait()
        yield TriggerEvent({"inline": True})

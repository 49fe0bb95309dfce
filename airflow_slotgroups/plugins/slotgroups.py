"""The plugin that Airflow finds by its entry point."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from airflow_slotgroups.listeners.release import ReleaseListener
from airflow_slotgroups.listeners.start import StartListener


class SlotGroupsPlugin(AirflowPlugin):
    """Registers our listeners."""

    name = "slotgroups"
    listeners = [StartListener(), ReleaseListener()]  # noqa: RUF012 - as the base class declares it

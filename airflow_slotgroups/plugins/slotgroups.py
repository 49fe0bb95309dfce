"""The plugin that Airflow finds by its entry point."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from airflow_slotgroups.listeners.start import StartListener


class SlotGroupsPlugin(AirflowPlugin):
    """Registers our listener."""

    name = "slotgroups"
    listeners = [StartListener()]  # noqa: RUF012 - as the base class declares it

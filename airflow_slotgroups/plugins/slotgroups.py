"""The plugin that Airflow finds by its entry point."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_slotgroups.api.lazy import LazyApp
from airflow_slotgroups.listeners.release import ReleaseListener
from airflow_slotgroups.listeners.start import StartListener

URL_PREFIX = "/slotgroups"


class SlotGroupsPlugin(AirflowPlugin):
    """Registers our listeners and mounts the REST API."""

    name = "slotgroups"
    listeners = [StartListener(), ReleaseListener()]  # noqa: RUF012 - as the base class declares it
    fastapi_apps: list[Any] = [  # noqa: RUF012 - as the base class declares it
        {"name": "slotgroups", "app": LazyApp(), "url_prefix": URL_PREFIX}
    ]

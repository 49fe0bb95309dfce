"""The plugin that Airflow finds by its entry point."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_slotgroups.api.lazy import LazyApp
from airflow_slotgroups.listeners.release import ReleaseListener
from airflow_slotgroups.listeners.start import StartListener
from airflow_slotgroups.plugins import page

URL_PREFIX = "/slotgroups"


class SlotGroupsPlugin(AirflowPlugin):
    """Registers our listeners, mounts the REST API, and names the page."""

    name = "slotgroups"
    listeners = [StartListener(), ReleaseListener()]  # noqa: RUF012 - as the base class declares it
    fastapi_apps: list[Any] = [  # noqa: RUF012 - as the base class declares it
        {"name": "slotgroups", "app": LazyApp(), "url_prefix": URL_PREFIX}
    ]
    react_apps: list[Any] = page.react_apps()
    appbuilder_views: Any = page.FabViews()

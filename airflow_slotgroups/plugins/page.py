"""The page as Airflow gets it: an entry in the Admin menu, a tab on every task instance, and a view of FAB."""

from __future__ import annotations

import functools
import logging
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from airflow_slotgroups.airflow_core.config import fab_view
from airflow_slotgroups.api.bundle import BUNDLE, bundle_url

log = logging.getLogger(__name__)


def react_apps() -> list[dict[str, Any]]:
    """Describe both apps, which share a bundle; none when it was not built.

    The names are read by people, and are those of the globals that the bundle sets (src/main.tsx).
    """
    url = bundle_url()
    if url is None:
        log.warning("%s is missing: there is no page for slot groups; API and commands work", BUNDLE)
        return []
    return [
        {
            "name": "Slot Groups",
            "bundle_url": url,
            "destination": "nav",
            "category": "admin",
            "url_route": "slot-groups",
        },
        {
            "name": "Slot Group",
            "bundle_url": url,
            "destination": "task_instance",
            "url_route": "slot-group",
        },
    ]


class FabViews:
    """A plugin's `appbuilder_views`, found out when Airflow asks: only the API server needs Flask for it."""

    def __get__(self, plugin: Any, owner: Any) -> list[dict[str, Any]]:
        """Return our view when it is wanted, and the FAB provider is installed."""
        return fab_views()


@functools.cache
def fab_views() -> list[dict[str, Any]]:
    """Describe the view."""
    if not fab_view():
        return []
    if find_spec("airflow.providers.fab") is None:
        log.warning(
            "[slotgroups] fab_view is set, and the FAB provider is not installed: there is no such view"
        )
        return []
    views: list[dict[str, Any]] = import_module("airflow_slotgroups.plugins.fab_view").appbuilder_views()
    return views

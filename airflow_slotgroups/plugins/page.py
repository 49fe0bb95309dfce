"""The page as Airflow gets it: an entry in the Admin menu, and a tab on every task instance."""

from __future__ import annotations

import logging
from typing import Any

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

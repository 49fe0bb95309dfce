"""The app as Airflow gets it: loaded at the first request, so that no scheduler and no worker pays for it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyApp:
    """An ASGI app that imports the real one when it is first called."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the call on."""
        await import_module("airflow_slotgroups.api.app").app(scope, receive, send)

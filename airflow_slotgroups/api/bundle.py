"""The built page: one file, which the plugin names to Airflow and the API serves."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

NAME = "slotgroups.js"
BUNDLE = Path(__file__).parents[1] / "plugins" / "www" / "dist" / NAME


def bundle_url() -> str | None:
    """Where the host finds the bundle, relative to its base; None when it was not built.

    The contents are part of the address, so that browsers may keep it for ever.
    """
    if not BUNDLE.is_file():
        return None
    return f"slotgroups/static/{NAME}?v={sha256(BUNDLE.read_bytes()).hexdigest()[:16]}"

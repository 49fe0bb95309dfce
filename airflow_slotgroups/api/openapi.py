"""Prints the OpenAPI document: `python -m airflow_slotgroups.api.openapi > docs/openapi.json`."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from importlib import import_module


def document() -> str:
    """Return the document as text that is the same for the same app."""
    # What Airflow prints while it is loaded is no part of the document.
    with redirect_stdout(sys.stderr):
        app = import_module("airflow_slotgroups.api.app").app
    return json.dumps(app.openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(document(), end="")

"""The OpenAPI document that is kept in the repository is that of the app."""

from __future__ import annotations

import json
from pathlib import Path

from airflow_slotgroups.api.openapi import document
from tests.api.conftest import Server

KEPT = Path(__file__).parents[2] / "docs" / "openapi.json"
REMAKE = "docs/openapi.json is out of date: python -m airflow_slotgroups.api.openapi > docs/openapi.json"


def test_the_document_is_that_of_the_app() -> None:
    """As a text, so that a change of the API shows in a review."""
    assert document() == KEPT.read_text(encoding="utf-8"), REMAKE


def test_the_app_serves_it(simple: Server) -> None:
    """To the signed-in."""
    assert simple.call("viewer", "GET", "/openapi.json").json() == json.loads(
        KEPT.read_text(encoding="utf-8")
    )

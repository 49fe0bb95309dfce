"""Whose writes the gate takes; the rest of it is tested on real API servers (tests/api)."""

from __future__ import annotations

import pytest
from fastapi import HTTPException, Request

from airflow_slotgroups.api import gate


def request_with(**headers: str) -> Request:
    """A write to airflow.example:8080."""
    said = {"host": "airflow.example:8080", **headers}
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in said.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": raw})


def refused(**headers: str) -> bool:
    """Tell whether the gate refuses it."""
    try:
        gate.check_origin(request_with(**headers))
    except HTTPException:
        return True
    return False


@pytest.fixture
def all_admins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow gives every request the token of an administrator."""
    monkeypatch.setattr(gate, "token_is_given_to_all", lambda: True)


@pytest.mark.parametrize(
    ("origin", "own"),
    [
        ("http://airflow.example:8080", True),
        ("https://airflow.example:8080", True),
        ("http://AIRFLOW.example:8080", True),
        ("http://airflow.example", False),
        ("http://airflow.example:8080.evil.example", False),
        ("http://evil.example/airflow.example:8080", False),
        ("ftp://airflow.example:8080", False),
        ("null", False),
        ("", False),
        ("http://[::1", False),
        ("http://airflow.example:99999", False),
    ],
)
def test_an_origin_is_ours_or_not(origin: str, own: bool) -> None:
    assert refused(origin=origin) is not own


def test_a_port_that_goes_without_saying_is_the_same() -> None:
    assert not refused(host="airflow.example", origin="https://airflow.example:443")
    assert not refused(host="airflow.example:443", origin="https://airflow.example")
    assert refused(host="airflow.example:80", origin="https://airflow.example")


def test_without_an_origin_a_cookie_does_not_write() -> None:
    assert refused()
    assert refused(sec_fetch_site="cross-site")
    assert not refused(sec_fetch_site="same-origin")


@pytest.mark.usefixtures("all_admins")
def test_where_everybody_is_admin_foreign_pages_are_refused_all_the_same() -> None:
    """And a script without a browser is not."""
    assert refused(origin="https://evil.example")
    assert refused(sec_fetch_site="cross-site")
    assert not refused()

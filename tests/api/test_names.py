"""Names with blanks, slashes, quotes, emoji and 248 characters are the same to API and services."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.api.conftest import Server

NAMES = (
    "two words",
    " blank at both ends ",
    "a/b/c",
    "/slash first and last/",
    'it\'s "quoted" `x`',
    "100% #1?&=+;",
    "..",
    "a.running",
    "back\\slash",
    "Füße",
    "🦆 Ente",
    "x" * 248,
    "é" * 248,
)


def path_of(name: str) -> str:
    """The name in a path; dots alone are encoded, or a client takes them for folders."""
    return quote(name, safe="").replace(".", "%2E") if set(name) == {"."} else quote(name, safe="")


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_group_of_any_name(simple: Server, name: str) -> None:
    """Made, read, changed, paused, listed and deleted by its name."""
    made = simple.call("op", "POST", "/groups", json={"pool": name, "slots": 2, "comment": "🦆"})
    assert made.status_code == 201, made.text
    at = path_of(name)
    assert simple.call("op", "GET", f"/groups/{at}").json()["pool"] == name
    assert simple.call("op", "PATCH", f"/groups/{at}", json={"slots": 3}).json()["slots"] == 3
    assert simple.call("op", "POST", f"/pause/{at}").json()["mode"] == "paused"
    for part in ("waiters", "holders", "ended", "history", "where-used"):
        assert simple.call("op", "GET", f"/{part}/{at}").status_code == 200
    actions = [one["action"] for one in simple.call("op", "GET", f"/audit/{at}").json()["entries"]]
    assert actions == ["pause", "set", "set"]
    listed = [group["pool"] for group in simple.call("op", "GET", "/groups").json()["groups"]]
    assert name in listed
    nobody = simple.call("op", "POST", f"/suspend/{at}", json={"dag_id": "dag_a"})
    assert nobody.status_code == 404
    assert simple.call("op", "POST", f"/dissolve/{at}").status_code == 204
    assert simple.call("op", "GET", f"/groups/{at}").status_code == 409
    assert simple.call("op", "POST", f"/adopt/{at}").status_code == 200
    assert simple.call("op", "DELETE", f"/groups/{at}").status_code == 204
    assert simple.call("op", "GET", f"/groups/{at}").status_code == 404


def test_names_that_no_group_may_bear(simple: Server) -> None:
    """The same as in the command line."""
    for name in ("", " ", "\n", "x" * 249, "two\nlines", "slotgroups.unlimited"):
        answer = simple.call("op", "POST", "/groups", json={"pool": name, "slots": 1})
        assert answer.status_code == 422, f"{name!r}: {answer.text}"

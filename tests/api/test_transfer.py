"""All groups to a file and from one, by the API."""

from __future__ import annotations

from tests.api.conftest import Server


def test_what_is_exported_can_be_imported(simple: Server) -> None:
    """Unchanged at once, made when it is gone, changed when it is another; the audit log says where it is from."""
    made = {"pool": "carried", "slots": 3, "description": "to and fro", "strategy": "backfill"}
    assert simple.call("op", "POST", "/groups", json=made).status_code == 201
    exported = simple.call("viewer", "GET", "/export").json()
    entry = exported["carried"]
    assert entry == {
        "slots": 3,
        "description": "to and fro",
        "include_deferred": False,
        "mode": "active",
        "strategy": "backfill",
        "max_passes": 10,
        "ageing_seconds": 0,
    }
    body = {"groups": {"carried": entry}, "source": "groups.json", "comment": "moved"}
    assert simple.call("op", "POST", "/import", json=body).json() == {"done": {"carried": "unchanged"}}
    body["groups"] = {"carried": entry | {"slots": 5, "mode": "paused"}}
    assert simple.call("op", "POST", "/import", json=body).json() == {"done": {"carried": "changed"}}
    group = simple.call("op", "GET", "/groups/carried").json()
    assert (group["slots"], group["mode"]) == (5, "paused")
    entries = simple.call("op", "GET", "/audit/carried").json()["entries"]
    assert entries[0]["comment"] == "imported from groups.json: moved"
    assert simple.call("op", "DELETE", "/groups/carried").status_code == 204
    assert simple.call("op", "POST", "/import", json=body).json() == {"done": {"carried": "made"}}
    assert simple.call("op", "DELETE", "/groups/carried").status_code == 204


def test_nothing_is_imported_if_one_entry_is_wrong(simple: Server) -> None:
    """Each problem is named, with its entry."""
    groups = {"good_one": {"slots": 1}, "bad_one": {"slots": -5}, "ordinary": {"slots": 3}}
    answer = simple.call("op", "POST", "/import", json={"groups": groups})
    assert answer.status_code == 422
    assert "'bad_one': slots can not be -5" in answer.json()["detail"]
    assert simple.call("op", "GET", "/groups/good_one").status_code == 404
    del groups["bad_one"]
    answer = simple.call("op", "POST", "/import", json={"groups": groups})
    assert answer.status_code == 422
    assert "'ordinary': it is an ordinary pool" in answer.json()["detail"]
    assert simple.call("op", "GET", "/groups/good_one").status_code == 404


def test_the_comment_of_a_deletion_is_kept(simple: Server) -> None:
    """As that of every other action."""
    assert simple.call("op", "POST", "/groups", json={"pool": "short_lived", "slots": 1}).status_code == 201
    answer = simple.call("op", "DELETE", "/groups/short_lived", params={"comment": "no longer needed"})
    assert answer.status_code == 204
    assert simple.call("op", "POST", "/groups", json={"pool": "short_lived", "slots": 1}).status_code == 201
    entries = simple.call("op", "GET", "/audit/short_lived").json()["entries"]
    assert [(e["action"], e["comment"]) for e in entries][1] == ("delete", "no longer needed")
    assert simple.call("op", "DELETE", "/groups/short_lived").status_code == 204

"""Rows of DAGs that the reader may not see are counted, not named: not in a reason, a problem or a filter."""

from __future__ import annotations

import pytest

from tests.api.conftest import Server

READ = (
    "/groups",
    "/groups/quiet",
    "/waiters/quiet",
    "/holders/quiet",
    "/ended/quiet",
    "/history/quiet",
    "/where-used/quiet",
    "/audit/quiet",
    "/audit/wh",
    "/health",
    "/coordinators",
    "/explain?dag_id=dag_a&task_id=after&run_id=quiet_run",
)
SECRETS = ("dag_b", "dag_gone", "secret")


@pytest.mark.parametrize("path", READ)
def test_nothing_names_a_dag_that_one_may_not_see(fab: Server, path: str) -> None:
    """`half` may see dag_a alone."""
    # Something about dag_b for the audit log.
    fab.call("admin", "POST", "/suspend/wh", json={"dag_id": "dag_b", "comment": "secret comment"})
    answer = fab.call("half", "GET", path)
    assert answer.status_code == 200, answer.text
    told = [secret for secret in SECRETS if secret in answer.text]
    assert not told, f"{told} in {answer.text}"


def test_they_are_counted(fab: Server) -> None:
    """And keep their places."""
    waiters = fab.call("half", "GET", "/waiters/quiet").json()
    assert [(row["position"], row["dag_id"]) for row in waiters["requests"]] == [(1, None), (2, "dag_a")]
    assert (waiters["total"], waiters["hidden"]) == (2, 1)
    assert waiters["requests"][1]["reason"] == "slots are kept for one before it, which needs 2"
    ended = fab.call("half", "GET", "/ended/quiet").json()
    assert (ended["total"], ended["hidden"]) == (12, 8)
    used = fab.call("half", "GET", "/where-used/quiet").json()
    assert [dag["dag_id"] for dag in used["dags"]] == ["dag_a"]
    assert used["hidden"] == 1
    assert fab.call("half", "GET", "/groups/quiet").json()["next_in"] is None


@pytest.mark.parametrize(
    "query", ["dag_id=dag_b", "task_id=secret_wide", "run_id=quiet_run", "search=secret"]
)
def test_a_filter_does_not_find_them(fab: Server, query: str) -> None:
    """So that nobody guesses names."""
    for path in ("/waiters/quiet", "/holders/quiet"):
        found = fab.call("half", "GET", f"{path}?{query}").json()
        assert found["hidden"] == 0
        assert {row["dag_id"] for row in found["requests"]} <= {"dag_a"}
        assert found["total"] == len(found["requests"])


@pytest.mark.parametrize("query", ["dag_id=dag_b", "task_id=secret_past", "run_id=past_1"])
def test_a_filter_does_not_find_ended_ones(fab: Server, query: str) -> None:
    """The same for what has been."""
    found = fab.call("half", "GET", f"/ended/quiet?{query}").json()
    assert found == {"requests": [], "total": 0, "hidden": 0}


def test_who_may_see_all_is_told_all(server: Server) -> None:
    """A reader of every DAG hears the names, those of a DAG that is gone too."""
    waiters = server.call("viewer", "GET", "/waiters/quiet").json()["requests"]
    assert waiters[1]["reason"] == "slots are kept for dag_b.secret_wide, which needs 2"
    ended = server.call("viewer", "GET", "/ended/quiet").json()
    assert ended["hidden"] == 0
    assert {row["dag_id"] for row in ended["requests"]} == {"dag_a", "dag_b", "dag_gone"}
    explained = server.call("viewer", "GET", READ[-1]).json()
    texts = [check["text"] for check in explained["checks"]]
    assert "ahead of it: dag_b.secret_wide" in texts
    assert "slots are held by: dag_a.holder" in texts


def test_the_filters_of_the_readers(server: Server) -> None:
    """Names, numbers, parts of names, pages."""

    def tasks(path: str) -> list[str]:
        return [row["task_id"] for row in server.call("viewer", "GET", path).json()["requests"]]

    assert tasks("/waiters/quiet?dag_id=dag_b") == ["secret_wide"]
    assert tasks("/waiters/quiet?task_id=after&run_id=quiet_run") == ["after"]
    assert tasks("/waiters/quiet?run_id=nothing") == []
    assert tasks("/waiters/quiet?search=WIDE") == ["secret_wide"]
    assert tasks("/waiters/quiet?limit=1&offset=1") == ["after"]
    assert tasks("/holders/quiet?task_id=holder") == ["holder"]
    assert tasks("/ended/quiet?limit=2") == ["load", "secret_past"]
    assert tasks("/ended/quiet?dag_id=dag_a&limit=1") == ["load"]
    assert tasks("/ended/quiet?state=cancelled") == []
    assert tasks("/ended/quiet?hours=0.0001") == []


def test_an_estimate_is_a_range(server: Server) -> None:
    """Twelve requests held for a minute; the holder has held for ten, so it may end at any moment."""
    head, behind = server.call("viewer", "GET", "/waiters/quiet").json()["requests"]
    assert head["estimate"] == {"earliest_seconds": 0, "latest_seconds": 0}
    assert behind["estimate"] == {"earliest_seconds": 60, "latest_seconds": 60}
    explained = server.call("viewer", "GET", READ[-1]).json()
    assert explained["request"]["estimate"] == behind["estimate"]


def test_where_used_tells_tasks_from_those_outside_the_queue(server: Server) -> None:
    """A task that names the running pool."""
    dags = server.call("viewer", "GET", "/where-used/quiet").json()["dags"]
    assert dags == [
        {
            "dag_id": "dag_a",
            "paused": False,
            "tasks": [
                {"task_id": "after", "slots": 1, "outside": True},
                {"task_id": "holder", "slots": 1, "outside": False},
            ],
        },
        {
            "dag_id": "dag_b",
            "paused": False,
            "tasks": [{"task_id": "secret_wide", "slots": 2, "outside": False}],
        },
    ]

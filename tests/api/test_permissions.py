"""Who may do what: every route, every role, both auth managers (S48, S66)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from airflow_slotgroups.api.app import PREFIX, app
from tests.api.conftest import Server

READERS = ("viewer", "user", "op", "admin")
CHANGERS = ("op", "admin")
EVERYBODY = (*READERS, "half")


@dataclass(frozen=True)
class Row:
    """A request of one route.

    :param who: those who may; the others get 403.
    :param status: what those who may get. What is refused for another reason changes nothing.
    :param body: sent as JSON.
    :param fab: those who may under the FAB auth manager, where its roles differ.
    """

    path: str
    who: tuple[str, ...]
    status: int = 200
    body: Any = None
    fab: tuple[str, ...] | None = None

    def allows(self, person: str, kind: str) -> bool:
        """Tell whether a person may."""
        return person in (self.fab if kind == "fab" and self.fab is not None else self.who)


READ = EVERYBODY
CHANGE = (*CHANGERS, "half")
OF_A = {"dag_id": "dag_a", "task_id": "after"}
OF_B = {"dag_id": "dag_b"}
LEVERS: dict[str, dict[str, Any]] = {
    "force-start": {},
    "prioritize": {"priority": 5},
    "suspend": {},
    "unsuspend": {},
}
"""What each of them needs beside whom it is about."""
MATRIX: dict[tuple[str, str], tuple[Row, ...]] = {
    ("GET", "/me"): (Row("/me", EVERYBODY), Row("/me?pool=wh", EVERYBODY)),
    ("GET", "/groups"): (Row("/groups", READ),),
    ("POST", "/groups"): (Row("/groups", CHANGE, 409, {"pool": "wh", "slots": 1}),),
    ("GET", "/groups/{pool:path}"): (Row("/groups/wh", READ), Row("/groups/nothing", READ, 404)),
    ("PATCH", "/groups/{pool:path}"): (Row("/groups/wh", CHANGE, 200, {"description": "tested"}),),
    ("DELETE", "/groups/{pool:path}"): (Row("/groups/wh", CHANGE, 409),),
    ("POST", "/adopt/{pool:path}"): (Row("/adopt/wh", CHANGE, 409), Row("/adopt/nothing", CHANGE, 404)),
    ("POST", "/dissolve/{pool:path}"): (Row("/dissolve/nothing", CHANGE, 404),),
    ("POST", "/pause/{pool:path}"): (Row("/pause/wh", CHANGE),),
    ("POST", "/bypass/{pool:path}"): (Row("/bypass/wh", CHANGE),),
    ("POST", "/resume/{pool:path}"): (Row("/resume/wh", CHANGE),),
    ("GET", "/export"): (Row("/export", READ),),
    ("POST", "/import"): (
        Row("/import", CHANGE, 200, {"groups": {}}),
        Row("/import", CHANGE, 200, {"groups": {"wh": {"slots": 2}}}),
        Row("/import", CHANGE, 422, {"groups": {"wh": {"slots": "two"}}}),
    ),
    ("GET", "/waiters/{pool:path}"): (Row("/waiters/wh", READ),),
    ("GET", "/holders/{pool:path}"): (Row("/holders/wh", READ),),
    ("GET", "/ended/{pool:path}"): (Row("/ended/wh", READ),),
    ("GET", "/history/{pool:path}"): (Row("/history/wh", READ),),
    ("GET", "/where-used/{pool:path}"): (Row("/where-used/wh", READ),),
    # FAB lets Admin alone read Airflow's audit log, in Airflow's own page too.
    ("GET", "/audit/{pool:path}"): (Row("/audit/wh", READ, fab=("admin", "half")),),
    **{
        ("POST", f"/{lever}/{{pool:path}}"): (
            Row(f"/{lever}/wh", CHANGE, 200, OF_A | more),
            Row(f"/{lever}/wh", CHANGERS, 200, OF_B | more),
            Row(f"/{lever}/wh", CHANGERS, 200, {"task_id": "secret_wide"} | more),
            Row(f"/{lever}/wh", CHANGERS, 200, {"all": True} | more),
            Row(f"/{lever}/wh", CHANGE, 409, {"request_ids": [1]} | more),
            Row(f"/{lever}/wh", CHANGERS, 404, OF_B | {"task_id": "nothing"} | more),
            Row(f"/{lever}/wh", CHANGE, 422, more),
        )
        for lever, more in LEVERS.items()
    },
    ("GET", "/health"): (Row("/health", READ),),
    ("GET", "/coordinators"): (Row("/coordinators", READ),),
    ("GET", "/explain"): (
        Row("/explain?dag_id=dag_a&task_id=after&run_id=run", READ),
        Row("/explain?dag_id=dag_b&task_id=secret_wide&run_id=run", READERS),
        Row("/explain?dag_id=dag_b&task_id=nothing&run_id=run", READERS, 404),
    ),
    ("GET", "/openapi.json"): (Row("/openapi.json", EVERYBODY),),
    ("GET", "/docs"): (Row("/docs", EVERYBODY),),
    # Outside the prefix: the test at the end.
    ("GET", "/static/slotgroups.js"): (),
}


def routes() -> set[tuple[str, str]]:
    """Every route of the app, with each of its methods; the paths without the prefix."""
    every: list[Any] = list(app.routes)
    return {(method, route.path.removeprefix(PREFIX)) for route in every for method in route.methods}


def test_every_route_is_in_the_matrix() -> None:
    """A route that nobody has thought of fails here: add a row that says who may use it."""
    assert routes() == MATRIX.keys()


@pytest.mark.parametrize("route", MATRIX, ids=" ".join)
def test_each_role_may_what_it_may(server: Server, route: tuple[str, str]) -> None:
    """Nobody unknown reads anything, viewers change nothing, and half acts on the requests of dag_a alone."""
    people = [person for person in EVERYBODY if person != "half" or server.kind == "fab"]
    for row in MATRIX[route]:
        method = route[0]
        found = {None: server.call(None, method, row.path, json=row.body).status_code}
        wanted: dict[str | None, int] = {None: 401}
        for person in people:
            answer = server.call(person, method, row.path, json=row.body)
            found[person] = answer.status_code
            wanted[person] = row.status if row.allows(person, server.kind) else 403
            if answer.status_code == 403:
                assert "dag_b" not in answer.text or "dag_b" in str(row), f"a name leaks: {answer.text}"
        assert found == wanted, f"{method} {row}"


def test_the_page_is_served_to_the_signed_in(server: Server) -> None:
    """The bundle; 404 where it was not built."""
    url = "/slotgroups/static/slotgroups.js"
    assert server.http.get(url).status_code == 401
    headers = {"Authorization": f"Bearer {server.token('viewer')}"}
    assert server.http.get(url, headers=headers).status_code in (200, 404)

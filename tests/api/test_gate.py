"""What stands before every route: who asks, from where, and how much."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.conftest import PREFIX, Server

COOKIE = "_token"
PAUSE = "/pause/wh"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nothing"),
        ("POST", "/health"),
        ("OPTIONS", "/groups"),
        ("HEAD", "/groups"),
        ("TRACE", "/groups"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("GET", "/groups/"),
        ("GET", "/../../static/slotgroups.js"),
    ],
)
def test_strangers_learn_nothing(server: Server, method: str, path: str) -> None:
    """Unknown paths, wrong methods and documents all answer 401, and a broken body is not even parsed."""
    answers = {
        server.call(None, method, path).status_code,
        server.call(None, method, path, content=b"{broken").status_code,
        server.call(None, method, path, headers={"Authorization": "Basic dXNlcjpwdw=="}).status_code,
        server.call(None, method, path, headers={"Authorization": "Bearer"}).status_code,
    }
    assert answers == {401}


def test_a_broken_body_is_not_parsed_for_strangers(server: Server) -> None:
    """Nor is a valid one checked."""
    for body in (b"{broken", b"{}", b'{"pool": 1}', b"\xff\xfe"):
        assert server.call(None, "POST", "/groups", content=body).status_code == 401


def test_a_token_that_is_none_is_refused(server: Server) -> None:
    """With Airflow's own answer."""
    answer = server.call(None, "GET", "/groups", headers={"Authorization": "Bearer none"})
    assert answer.status_code in (401, 403)


def test_the_signed_in_are_told_of_unknown_paths_and_wrong_methods(server: Server) -> None:
    """404 and 405, as everywhere."""
    assert server.call("viewer", "GET", "/nothing").status_code == 404
    assert server.call("viewer", "POST", "/health").status_code == 405
    assert server.call("viewer", "GET", "/groups/").status_code == 404


def with_cookie(server: Server, path: str, **headers: str) -> int:
    """Write as a browser does that is signed in as admin."""
    cookie = f"{COOKIE}={server.token('admin')}"
    request = {"Cookie": cookie, **{name.replace("_", "-"): value for name, value in headers.items()}}
    with httpx.Client(trust_env=False) as client:
        return client.post(server.url + PREFIX + path, json={}, headers=request).status_code


def test_a_cookie_reads(server: Server) -> None:
    """Airflow's own cookie is known to a mounted app."""
    cookie = f"{COOKIE}={server.token('viewer')}"
    with httpx.Client(trust_env=False) as client:
        assert client.get(server.url + PREFIX + "/groups", headers={"Cookie": cookie}).status_code == 200


def test_a_cookie_writes_from_our_own_pages_alone(server: Server) -> None:
    """The page of another origin sends its own origin, `null`, or none at all."""
    port = server.url.rpartition(":")[2]
    assert with_cookie(server, PAUSE, Origin=server.url) == 200
    assert with_cookie(server, PAUSE, Sec_Fetch_Site="same-origin") == 200
    foreign = [
        "https://evil.example",
        "null",
        "",
        "http://127.0.0.1",
        f"http://127.0.0.1:{port}.evil.example",
        f"http://evil.example:{port}",
        f"http://127.0.0.1:{port}@evil.example",
        "http://[",
        "http://127.0.0.1:port",
        "file://",
    ]
    assert {origin: with_cookie(server, PAUSE, Origin=origin) for origin in foreign} == dict.fromkeys(
        foreign, 403
    )
    assert with_cookie(server, PAUSE) == 403
    assert with_cookie(server, PAUSE, Sec_Fetch_Site="cross-site") == 403
    assert with_cookie(server, PAUSE, Sec_Fetch_Site="same-site") == 403


def test_another_kind_of_authorization_is_no_token(server: Server) -> None:
    """The user would still be the cookie's: a page can have a browser send `Basic` by a form."""
    for authorization in ("Basic dXNlcjpwdw==", "Bearer", "Digest x"):
        assert with_cookie(server, PAUSE, Origin="https://evil.example", Authorization=authorization) == 403


def test_what_a_proxy_may_be_made_to_say_is_not_believed(server: Server) -> None:
    """Whoever sends X-Forwarded-Host could name himself."""
    forwarded = {"X_Forwarded_Host": "evil.example", "Forwarded": "host=evil.example"}
    assert with_cookie(server, PAUSE, Origin="https://evil.example", **forwarded) == 403


def test_behind_a_proxy_the_configured_address_is_ours(server: Server) -> None:
    """The proxy asks us by another name; [api] base_url is the one that browsers know."""
    assert with_cookie(server, PAUSE, Host="inside:8080", Origin=server.url) == 200
    assert with_cookie(server, PAUSE, Host="airflow.example", Origin="https://airflow.example") == 200
    assert with_cookie(server, PAUSE, Host="airflow.example", Origin="https://airflow.example:444") == 403


def test_a_body_is_bounded(server: Server) -> None:
    """By what it says, and by what it is."""
    long = b'{"comment": "' + b"x" * 2_000_000 + b'"}'

    def chunks() -> Any:
        yield from (long[at : at + 100_000] for at in range(0, len(long), 100_000))

    headers = {"Content-Type": "application/json"}
    assert server.call("admin", "POST", PAUSE, content=long, headers=headers).status_code == 413
    assert server.call("admin", "POST", PAUSE, content=chunks(), headers=headers).status_code == 413
    assert server.call("admin", "POST", PAUSE, json={"comment": "x" * 10_001}).status_code == 422
    many = {"request_ids": list(range(1001))}
    assert server.call("admin", "POST", "/suspend/wh", json=many).status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        b"{broken",
        b"[]",
        b"null",
        b'{"pool": "\\ud800", "slots": 1}',
        b'{"pool": "x", "slots": 1, "\\ud800": 1}',
        b'{"pool": "a\\u0000b", "slots": 1}',
        b'{"pool": "x", "slots": 1e400}',
        b'{"pool": "x", "slots": 99999999999999999999}',
        b'{"pool": "", "slots": 1}',
        b'{"pool": " ", "slots": 1}',
        b'{"pool": "x", "slots": true, "more": 1}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_wrong_body_is_answered_in_words(server: Server, body: bytes) -> None:
    """In the form of every error, without what was sent."""
    answer = server.call(
        "admin", "POST", "/groups", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (400, 422), answer.text
    assert answer.json().keys() == {"detail", "remedy", "can_retry"}


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nothing", 404), ("POST", "/suspend/wh", 422)]
)
def test_what_no_service_refuses_is_answered_in_the_same_form(
    server: Server, method: str, path: str, status: int
) -> None:
    """A route that there is not, and one that refuses by itself."""
    answer = server.call("admin", method, path, json={} if method == "POST" else None)
    assert answer.status_code == status, answer.text
    assert answer.json().keys() == {"detail", "remedy", "can_retry"}


def test_a_priority_that_was_forgotten_puts_nobody_to_the_top(server: Server) -> None:
    answer = server.call("admin", "POST", "/prioritize/wh", json={"all": True})
    assert answer.status_code == 422
    assert "priority" in answer.json()["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "/groups/a%00b",
        "/explain?dag_id=a%00&task_id=b&run_id=c",
        "/waiters/wh?search=%00",
        "/explain?dag_id=a&task_id=b&run_id=c&map_index=99999999999999999999",
        "/waiters/wh?request_id=99999999999999999999",
        "/audit/wh?before=99999999999999999999",
        "/ended/wh?hours=nan",
        "/history/wh?hours=inf&buckets=0",
        "/groups/" + "x" * 249,
        "/me?pool=" + "x" * 249,
    ],
)
def test_values_that_no_database_takes_are_refused(server: Server, path: str) -> None:
    """Before they reach one."""
    assert server.call("admin", "GET", path).status_code in (400, 422)

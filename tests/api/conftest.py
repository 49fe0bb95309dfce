"""Two API servers, one with each auth manager, each a process of its own on a SQLite file of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import pytest

from devtools.deployment import free_port
from tests.api.server import PASSWORDS

SERVER = Path(__file__).with_name("server.py")
ROOT = SERVER.parents[2]
PREFIX = "/slotgroups/api/v1"
MANAGERS = {
    "simple": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
    "fab": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
}
START_TIMEOUT = 240


@dataclass
class Server:
    """A running API server, and who may talk to it."""

    url: str
    kind: str
    log: Path
    process: subprocess.Popen[bytes]
    tokens: dict[str, str] = field(default_factory=dict)

    @cached_property
    def http(self) -> httpx.Client:
        """A client without anybody's token, never through a proxy of the machine."""
        return httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def token(self, name: str) -> str:
        """The token of a person."""
        if name not in self.tokens:
            answer = self.http.post("/auth/token", json={"username": name, "password": PASSWORDS[name]})
            assert answer.status_code == 201, answer.text
            self.tokens[name] = answer.json()["access_token"]
            self.http.cookies.clear()
        return self.tokens[name]

    def call(self, who: str | None, method: str, path: str, **request: Any) -> httpx.Response:
        """Send one request as a person, or as nobody; `path` is that below the API's prefix."""
        headers = request.pop("headers", {})
        if who is not None:
            headers = {"Authorization": f"Bearer {self.token(who)}", **headers}
        return self.http.request(method, PREFIX + path, headers=headers, **request)


@contextmanager
def running(kind: str, home: Path) -> Iterator[Server]:
    """Start a server, which takes a while until it answers."""
    port, log = free_port(), home / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, str(SERVER), kind, str(port)],
            cwd=home,
            env=environment(kind, home, port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    server = Server(f"http://127.0.0.1:{port}", kind, log, process)
    try:
        yield server
    finally:
        process.terminate()
        process.wait()
        server.http.close()


def environment(kind: str, home: Path, port: int) -> dict[str, str]:
    """Nothing of the caller's Airflow."""
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW_", "_AIRFLOW_"))
    }
    return inherited | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__API__SECRET_KEY": "for tests alone " * 4,
        "AIRFLOW__API_AUTH__JWT_SECRET": "for tests alone " * 4,
        "AIRFLOW__CORE__AUTH_MANAGER": MANAGERS[kind],
        "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "viewer:viewer,user:user,op:op,admin:admin",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}?timeout=60",
        "NO_COLOR": "1",
        "PYTHONPATH": str(ROOT),
    }


def wait_until_up(server: Server) -> None:
    """Poll until somebody answers."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        assert server.process.poll() is None, server.log.read_text()[-5000:]
        assert time.monotonic() < deadline, server.log.read_text()[-5000:]
        try:
            server.http.get(f"{PREFIX}/me")
        except httpx.TransportError:
            time.sleep(0.2)
        else:
            return


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Both, made side by side."""
    homes = {kind: tmp_path_factory.mktemp(f"api_{kind}") for kind in MANAGERS}
    with running("simple", homes["simple"]) as simple, running("fab", homes["fab"]) as fab:
        for server in (simple, fab):
            wait_until_up(server)
        yield {"simple": simple, "fab": fab}


@pytest.fixture(params=MANAGERS)
def server(request: pytest.FixtureRequest, servers: dict[str, Server]) -> Server:
    """One after the other."""
    return servers[request.param]


@pytest.fixture
def simple(servers: dict[str, Server]) -> Server:
    """The one with the SimpleAuthManager."""
    return servers["simple"]


@pytest.fixture
def fab(servers: dict[str, Server]) -> Server:
    """The one with the FAB auth manager."""
    return servers["fab"]

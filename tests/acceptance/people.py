"""The API server that the tests talk to where Airflow's own would stand in its own way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from devtools.deployment import Deployment, free_port
from devtools.processes import ManagedProcess
from devtools.rest import RestClient, RestError


class OneAtATime(RestClient):
    """A client that waits for each answer before the next call."""

    def __init__(self, base_url: str) -> None:
        super().__init__(base_url)
        self._turn = threading.Lock()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One call, when all others have been answered."""
        with self._turn:
            return super().call(method, path, body)


@contextmanager
def api_server_for_people(airflow: Deployment) -> Iterator[None]:
    """Let the deployment's REST client talk to an API server of its own, apart from that of the tasks.

    On SQLite one API server for both stops itself: writing the audit log blocks its event loop until it has
    the write lock, which a task's heartbeat holds until that same loop lets it commit. Both wait until the
    time-out of the lock, and so does everybody else.
    """
    port = free_port()
    command = [airflow.python, "-m", "airflow", "api-server", "--apps", "core"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    process = ManagedProcess("api-people", command, airflow.home / "logs-proc" / "api-people.log")
    process.start(airflow.env, airflow.home)
    try:
        client = OneAtATime(f"http://127.0.0.1:{port}")
        airflow.wait_for(lambda: is_up(client), 120, "the API server for people")
        airflow.rest = client
        yield
    finally:
        process.stop(grace=10)


def is_up(client: RestClient) -> bool:
    """Whether somebody answers."""
    try:
        return bool(client.health())
    except (OSError, RestError):
        return False

"""API servers beside that of the tasks: for people, and as people set them up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from devtools.deployment import Deployment, free_port
from devtools.processes import ManagedProcess
from devtools.rest import RestClient, RestError


@contextmanager
def api_server(
    airflow: Deployment, name: str, path: str = "", config: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run one more API server, for as long as the block lasts; yields its address without a slash.

    On SQLite, people and tasks need two anyway: see `api_server_for_people` of the acceptance tests.

    :param path: the path prefix that it is served from.
    :param config: settings that differ.
    """
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [airflow.python, "-m", "airflow", "api-server", "--apps", "core"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    process = ManagedProcess(name, command, airflow.home / "logs-proc" / f"{name}.log")
    process.start(
        airflow.env | {"AIRFLOW__API__BASE_URL": f"{address}{path}", **(config or {})}, airflow.home
    )
    try:
        client = RestClient(address + path)
        airflow.wait_for(lambda: is_up(client, process), 120, f"the API server {name}")
        yield address + path
    finally:
        process.stop(grace=10)


def is_up(client: RestClient, process: ManagedProcess) -> bool:
    """Whether somebody answers; a process that has ended says why."""
    if not process.alive:
        raise RuntimeError(process.tail())
    try:
        return bool(client.health())
    except (OSError, RestError):
        return False

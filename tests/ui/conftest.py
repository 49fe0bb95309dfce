"""One Airflow and one browser for all tests of the page."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from devtools.api_server import api_server
from devtools.browser import CHROMIUM, VARIABLE, chromium
from devtools.deployment import Deployment
from devtools.rest import RestClient

from .world import World, pages_of

PASSWORDS = {"admin": "admin-secret", "viewer": "viewer-secret"}
FAB_PASSWORD = "fab-secret"
PREFIX = "/deep/airflow"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    if not CHROMIUM.is_file():
        pytest.skip(f"no browser at {CHROMIUM}: {VARIABLE} names another")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def airflow(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """An Airflow on SQLite, with the DAGs of these tests."""
    home = tmp_path_factory.mktemp("ui")
    dags = home / "dags"
    shutil.copytree(Path(__file__).parent / "dags", dags, ignore=shutil.ignore_patterns("__pycache__"))
    (home / "gates").mkdir()
    with Deployment(home, dags=dags, config={"AIRFLOW__CORE__PARALLELISM": "24"}) as airflow:
        airflow.migrate()
        airflow.start()
        yield airflow
        (home / "gates" / "everything").touch()


@pytest.fixture(scope="session")
def world(airflow: Deployment) -> Iterator[World]:
    """The Airflow with an API server for people, who are all administrators."""
    with api_server(airflow, "api-people") as address:
        airflow.rest = RestClient(address)
        airflow.wait_dag_parsed(["ui_drain", "ui_legacy"])
        yield World(airflow, address)


@pytest.fixture(scope="session")
def guarded(world: World) -> Iterator[str]:
    """The address of an API server with users and passwords, under a path prefix."""
    passwords = world.airflow.home / "passwords.json"
    passwords.write_text(json.dumps(PASSWORDS))
    config = {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
    }
    with api_server(world.airflow, "api-guarded", PREFIX, config) as address:
        yield address


@pytest.fixture(scope="session")
def fab(world: World) -> Iterator[str]:
    """The address of an API server with FAB's users and roles, and our view for Flask-AppBuilder."""
    airflow = world.airflow
    config = {
        "AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
        "AIRFLOW__SLOTGROUPS__FAB_VIEW": "True",
    }
    who = ["--firstname", "A", "--lastname", "B", "--password", FAB_PASSWORD]
    users = [
        ["users", "create", "--username", name, "--role", role, "--email", f"{name}@example.org", *who]
        for name, role in (("boss", "Admin"), ("guest", "Viewer"))
    ]
    for command in (["fab-db", "migrate"], *users):
        done = subprocess.run(
            [airflow.python, "-m", "airflow", *command],
            env=airflow.env | config,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    with api_server(airflow, "api-fab", config=config) as address:
        yield address


@pytest.fixture
def page(browser: Browser, world: World) -> Iterator[Page]:
    """A page of an administrator; an error of the page's own scripts fails the test."""
    with pages_of(browser, world.address) as page:
        yield page

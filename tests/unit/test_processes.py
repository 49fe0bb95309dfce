"""Processes of a deployment end, and what outlives them is found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.processes import ManagedProcess, end_leftovers, processes_of_home

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
DAEMON = (
    "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
    " start_new_session=True)"
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "AIRFLOW_HOME": str(tmp_path)}


@pytest.fixture
def stubborn(tmp_path: Path, env: dict[str, str]) -> Iterator[ManagedProcess]:
    process = ManagedProcess("stubborn", [sys.executable, "-c", STUBBORN], tmp_path / "stubborn.log")
    process.start(env, tmp_path)
    _wait_until_up(process)
    yield process
    process.kill_group()


def _wait_until_up(process: ManagedProcess) -> None:
    deadline = time.monotonic() + 20
    while "up" not in process.tail() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_stop_kills_what_ignores_sigterm(stubborn: ManagedProcess) -> None:
    stubborn.stop(grace=0.2)

    assert stubborn.returncode == -signal.SIGKILL


def test_a_second_start_is_refused(stubborn: ManagedProcess, env: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stubborn runs already as process"):
        stubborn.start(env, tmp_path)


def test_the_tail_shows_the_output(stubborn: ManagedProcess) -> None:
    assert stubborn.tail().splitlines() == ["--- stubborn.log, last 1 lines", "up"]


def test_a_daemon_of_a_dead_parent_is_found_by_its_home_and_ended(
    env: dict[str, str], tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-c", DAEMON], env=env, stdout=subprocess.DEVNULL, check=True)

    [left] = processes_of_home(tmp_path)

    assert end_leftovers(tmp_path, patience=0.2) == [left.pid]
    assert processes_of_home(tmp_path) == []


def test_other_homes_are_left_alone(stubborn: ManagedProcess, tmp_path: Path) -> None:
    assert end_leftovers(tmp_path / "other", patience=0) == []
    assert stubborn.alive

"""Processes of a deployment: started in a group of their own, ended by their ids, none left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types

POLL_SECONDS = 0.1


class ManagedProcess:
    """One long-running command, leader of its own process group, its output appended to a file."""

    def __init__(self, name: str, command: Sequence[str], log_path: Path) -> None:
        self.name = name
        self.command = list(command)
        self.log_path = log_path
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the started process, also after its end."""
        if self._popen is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs (or before it was started), else as in subprocess."""
        return None if self._popen is None else self._popen.poll()

    @property
    def alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._popen is not None and self._popen.poll() is None

    def start(self, env: Mapping[str, str], cwd: Path) -> None:
        """Start it; it must not be alive."""
        if self.alive:
            raise RuntimeError(f"{self.name} runs already as process {self.pid}")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._popen = subprocess.Popen(
                self.command,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def signal(self, number: int) -> None:
        """Send a signal to the process alone, not to its group."""
        if self.alive:
            os.kill(self.pid, number)

    def wait(self, timeout: float) -> bool:
        """Wait for its end; False when it is still alive after `timeout` seconds."""
        if self._popen is None:
            return True
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout)
        return not self.alive

    def stop(self, grace: float) -> None:
        """SIGTERM, then after `grace` seconds SIGKILL to what is left of its process group."""
        self.signal(signal.SIGTERM)
        self.wait(grace)
        self.kill_group()

    def kill_group(self) -> None:
        """SIGKILL to the process group: also reaches children that outlived their leader."""
        if self._popen is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(5)

    def tail(self, lines: int = 40) -> str:
        """The last lines of its output."""
        return tail_of(self.log_path, lines)


def tail_of(path: Path, lines: int) -> str:
    """The last lines of a text file, with a heading; says so when there is no file."""
    if not path.is_file():
        return f"--- {path.name}: no output yet"
    text = path.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join([f"--- {path.name}, last {len(text)} lines", *text])


def processes_of_home(home: Path) -> list[psutil.Process]:
    """Every process of ours whose environment names this AIRFLOW_HOME, in whatever session it runs.

    The environment is the one mark that a child keeps when it makes a session of its own and its parent dies.
    """
    return [process for process in psutil.process_iter() if _belongs_to(process, str(home))]


def _belongs_to(process: psutil.Process, home: str) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        mine: bool = process.environ().get("AIRFLOW_HOME") == home
        return mine and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def end_leftovers(home: Path, patience: float) -> list[int]:
    """Wait for processes of this home to end by themselves; SIGKILL the rest and return their ids."""
    deadline = time.monotonic() + patience
    while (left := processes_of_home(home)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=5)
    return [process.pid for process in left]

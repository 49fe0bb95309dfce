"""Services of the package and command lines, called in one long-lived process per deployment.

The test process must not carry Airflow's settings of two databases, and a process for each command costs
seconds of two cores that the scenarios need. So `Remote` starts a worker in the environment of its deployment,
and speaks JSON lines with it.
"""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

from devtools.deployment import Deployment

ROOT = Path(__file__).resolve().parents[2]


class RemoteError(RuntimeError):
    """A service refused; the message is its error, with its class in front."""


class Remote:
    """Calls services of the package in the environment of a deployment; may be used from many threads."""

    def __init__(self, deployment: Deployment) -> None:
        self._lock = threading.Lock()
        self._log = (deployment.home / "remote.log").open("ab")
        self._process = subprocess.Popen(
            [deployment.python, "-c", WORKER],
            env={**deployment.env, "PYTHONPATH": str(ROOT)},
            cwd=deployment.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def call(self, function: str, *args: Any, **kwargs: Any) -> Any:
        """Call `function` of the worker below; raises RemoteError when the service refuses."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps([function, args, kwargs]) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            raise RemoteError(f"the process that calls services has ended, see {self._log.name}")
        error, result = json.loads(answer)
        if error:
            raise RemoteError(error)
        return result

    def close(self) -> None:
        """End the process: it ends with its input."""
        with self._lock:
            self._process.communicate(timeout=30)
        self._log.close()


#: Prints nothing but answers on its first output; everything else that prints goes to the log.
WORKER = """
import dataclasses, json, os, sys

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

from airflow_slotgroups.domain.states import Strategy
from airflow_slotgroups.services import groups, health, queue
from tests.cli.worker import run

def change(slots=None, strategy=None, **settings):
    return groups.GroupChange(slots=slots, strategy=Strategy(strategy) if strategy else None, **settings)

CALLS = {
    "set": lambda name, slots, **s: groups.set_group(name, change(slots, **s), who="tests"),
    "get": groups.get_group,
    "adopt": lambda name: groups.adopt(name, change(), who="tests"),
    "dissolve": lambda name: groups.dissolve(name, who="tests"),
    "queue": queue.queue_of,
    "check": health.check,
    "airflow": lambda *argv: run(list(argv)),
}

def plain(value):
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else str(value)

for line in sys.stdin:
    function, args, kwargs = json.loads(line)
    try:
        answer = [None, CALLS[function](*args, **kwargs)]
    except Exception as error:
        answer = [f"{type(error).__name__}: {error}", None]
    print(json.dumps(answer, default=plain), file=answers, flush=True)
"""

"""A real Airflow for tests, the demo and the bench: its own home, database and ports, loopback only."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from devtools.processes import ManagedProcess, end_leftovers, processes_of_home
from devtools.rest import RestClient, RestError

Result = TypeVar("Result")
RunKey = tuple[str, str]

STOP_GRACE_SECONDS = 15.0
#: A coordinator sees within about 2 s that its scheduler is gone.
ORPHAN_PATIENCE_SECONDS = 5.0
START_TIMEOUT_SECONDS = 120.0
RUN_ENDED = frozenset({"success", "failed"})


class DeploymentError(RuntimeError):
    """Airflow did not do what was asked of it; the message carries the tails of its logs."""


class Deployment:
    """Runs an Airflow of its own and lets a test talk to it.

    :param home: AIRFLOW_HOME, made if missing; logs of the processes go to `home/logs-proc/*.log`.
    :param dags: the DAGs folder, `home/dags` by default.
    :param database_url: a SQLAlchemy URL of an existing database; a SQLite file in `home` by default.
    :param config: more settings as environment variables, e.g. {"AIRFLOW__CORE__PARALLELISM": "8"}.
    :param python: the interpreter of the virtual environment that has Airflow.
    """

    def __init__(
        self,
        home: Path,
        dags: Path | None = None,
        database_url: str | None = None,
        config: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self.home = home.resolve()
        self.dags = (dags or self.home / "dags").resolve()
        # With Airflow's own 5 s a busy SQLite file is "locked" often enough to end its scheduler.
        self.database_url = database_url or f"sqlite:///{self.home / 'airflow.db'}?timeout=60"
        self.python = python
        self.port = free_port()
        self.schedulers: list[ManagedProcess] = []
        self._config = dict(config or {})
        self._others: list[ManagedProcess] = []
        self.home.mkdir(parents=True, exist_ok=True)
        self.dags.mkdir(parents=True, exist_ok=True)

    # Settings

    @property
    def url(self) -> str:
        """Where the API server and the pages are."""
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def env(self) -> dict[str, str]:
        """The environment of every process of this Airflow; nothing of the caller's Airflow is in it."""
        inherited = {key: value for key, value in os.environ.items() if not _is_foreign(key)}
        inherited["PATH"] = os.pathsep.join([str(Path(self.python).parent), os.environ.get("PATH", "")])
        if self.database_url.startswith("mysql"):
            inherited["PYTHONPATH"] = str(Path(__file__).parent / "pymysql_shim")
        return inherited | self._settings() | self._config

    def _settings(self) -> dict[str, str]:
        keys = _keys_of(self.home / "keys.json")
        return {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__SECRET_KEY": keys["secret"],
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API_AUTH__JWT_SECRET": keys["jwt"],
            "AIRFLOW__CORE__AUTH_MANAGER": (
                "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
            ),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__FERNET_KEY": keys["fernet"],
            # Asks no name server.
            "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "16",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
            # A file is parsed when it is new or was changed; to parse all of them again and again is a fifth of
            # what two cores have to do.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "2",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database_url,
            "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
            "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            # A failed task's end is noticed within this time: 5 s, the default, makes retries slow to watch.
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            "NO_COLOR": "1",
            "PYTHONUNBUFFERED": "1",
            # setproctitle would overwrite the environment by which leftovers are found.
            "SPT_NOENV": "1",
        }

    # Commands

    def migrate(self) -> None:
        """`airflow db migrate`."""
        self.cli("db", "migrate", timeout=300)

    def cli(self, *args: str, check: bool = True, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run `airflow ARGS`; with `check` an exit code other than 0 is an error that shows the output."""
        command = [self.python, "-m", "airflow", *args]
        done = subprocess.run(
            command,
            env=self.env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise DeploymentError(
                f"airflow {' '.join(args)} ended with {done.returncode}\n"
                f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )
        return done

    # Processes

    def start(self, schedulers: int = 1, triggerer: bool = False) -> None:
        """Start everything and return when all of it is healthy; on an error nothing is left running."""
        refuse_used_home(self.home)
        try:
            self._start_all(schedulers, triggerer)
        except BaseException:
            self.stop(grace=5)
            raise

    def stop(self, grace: float = STOP_GRACE_SECONDS) -> None:
        """End every process; running tasks have `grace` seconds to finish. Safe to call twice.

        Raises when a process outlived all of it: that is a fault of what runs inside, and it was killed.
        """
        first = [*self.schedulers, *(process for process in self._others if process.name != "api-server")]
        last = [process for process in self._others if process.name == "api-server"]
        # Tasks report their end to the API server, so it goes when no scheduler is left to run any.
        for processes in (first, last):
            _stop_all(processes, grace)
        self.schedulers, self._others = [], []
        if killed := end_leftovers(self.home, ORPHAN_PATIENCE_SECONDS):
            raise DeploymentError(
                f"processes {killed} of {self.home} outlived their Airflow by {ORPHAN_PATIENCE_SECONDS:g} s"
                f" and were killed\n{self.tails()}"
            )

    def kill_scheduler(self, index: int, signal_number: int) -> None:
        """Send a signal to one scheduler process alone."""
        self.schedulers[index].signal(signal_number)

    def restart_scheduler(self, index: int, grace: float = STOP_GRACE_SECONDS) -> None:
        """End one scheduler, if it is alive, and start it again."""
        self.schedulers[index].stop(grace)
        self.schedulers[index].start(self.env, self.home)

    def pids(self) -> dict[str, int]:
        """Process ids by name: scheduler-0, ..., dag-processor, api-server, triggerer."""
        return {process.name: process.pid for process in self._all()}

    def tails(self, lines: int = 40) -> str:
        """The last lines of every process's output."""
        return "\n".join(process.tail(lines) for process in self._all())

    def _all(self) -> list[ManagedProcess]:
        return [*self.schedulers, *self._others]

    def _start_all(self, schedulers: int, triggerer: bool) -> None:
        self._others = [
            self._process("api-server", "api-server", "--host", "127.0.0.1", "--port", str(self.port)),
            self._process("dag-processor", "dag-processor"),
        ]
        if triggerer:
            self._others.append(self._process("triggerer", "triggerer", "--skip-serve-logs"))
        self.schedulers = [
            self._process(f"scheduler-{index}", "scheduler", "--skip-serve-logs")
            for index in range(schedulers)
        ]
        for process in self._all():
            process.start(self.env, self.home)
        self.wait_for(lambda: self._healthy(triggerer), START_TIMEOUT_SECONDS, "a healthy Airflow")

    def _process(self, name: str, *args: str) -> ManagedProcess:
        command = [self.python, "-m", "airflow", *args]
        return ManagedProcess(name, command, self.home / "logs-proc" / f"{name}.log")

    def _healthy(self, triggerer: bool) -> bool:
        self._raise_on_death()
        wanted = ["metadatabase", "dag_processor"]
        wanted += ["scheduler"] if self.schedulers else []
        wanted += ["triggerer"] if triggerer else []
        try:
            report = self.rest.health()
        except (OSError, RestError):
            return False
        return all((report.get(part) or {}).get("status") == "healthy" for part in wanted)

    def _raise_on_death(self) -> None:
        dead = [process for process in self._all() if not process.alive]
        if dead:
            raise DeploymentError(
                "\n".join(
                    f"{process.name} ended with {process.returncode}\n{process.tail()}" for process in dead
                )
            )

    # DAGs and runs

    @cached_property
    def rest(self) -> RestClient:
        """Airflow's REST API."""
        return RestClient(self.url)

    def trigger(self, dag_id: str, run_id: str | None = None, conf: dict[str, Any] | None = None) -> str:
        """Make a run through the REST API; returns its id."""
        return self.rest.trigger(dag_id, run_id, conf)

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG through the REST API."""
        self.rest.unpause(dag_id)

    def pause(self, dag_id: str) -> None:
        """Pause a DAG through the REST API."""
        self.rest.pause(dag_id)

    def engine(self) -> Engine:
        """An engine for looking at the database: every connection new, every statement on its own."""
        return self._engine

    @cached_property
    def _engine(self) -> Engine:
        sqlite = make_url(self.database_url).get_backend_name() == "sqlite"
        return create_engine(
            self.database_url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"timeout": 30} if sqlite else {},
        )

    def rows(self, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of a query, parameters written as :name."""
        with self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(text(sql), parameters).mappings()]

    # Waiting

    def wait_for(
        self,
        predicate: Callable[[], Result],
        timeout: float,
        what: str,
        interval: float = 0.2,
    ) -> Result:
        """Call `predicate` until its result is true, and return that; after `timeout` an error with logs."""
        deadline = time.monotonic() + timeout
        while not (result := predicate()):
            if time.monotonic() > deadline:
                raise DeploymentError(f"waited {timeout:g} s in vain for {what}\n{self.tails()}")
            time.sleep(interval)
        return result

    def wait_dag_parsed(self, dag_ids: Iterable[str], timeout: float = 60) -> None:
        """Wait until these DAGs are in the database; an import error ends the wait at once."""
        wanted = set(dag_ids)
        self.wait_for(lambda: not self._unparsed(wanted), timeout, f"DAGs {', '.join(sorted(wanted))}")

    def wait_runs(self, runs: Iterable[RunKey], timeout: float = 120) -> dict[RunKey, str]:
        """Wait for the end of runs, given as (dag_id, run_id); returns their states."""
        wanted = set(runs)
        return self.wait_for(
            lambda: self._ended(wanted), timeout, f"the end of {', '.join(map(str, sorted(wanted)))}"
        )

    def _unparsed(self, wanted: set[str]) -> set[str]:
        if errors := self.rows("SELECT filename, stacktrace FROM import_error"):
            raise DeploymentError(
                "\n".join(
                    f"{error['filename']} can not be imported\n{error['stacktrace']}" for error in errors
                )
            )
        parsed = self.rows(
            "SELECT DISTINCT d.dag_id FROM dag d JOIN serialized_dag s ON s.dag_id = d.dag_id"
            " WHERE NOT d.is_stale"
        )
        return wanted - {row["dag_id"] for row in parsed}

    def _ended(self, wanted: set[RunKey]) -> dict[RunKey, str]:
        rows = self.rows("SELECT dag_id, run_id, state FROM dag_run")
        ended = {
            (row["dag_id"], row["run_id"]): str(row["state"]) for row in rows if row["state"] in RUN_ENDED
        }
        return {key: ended[key] for key in wanted} if wanted <= ended.keys() else {}

    # Context manager

    def __enter__(self) -> Deployment:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
            return
        # The error that is on its way out says more than one about leftovers.
        with contextlib.suppress(DeploymentError):
            self.stop(grace=5)


def empty_home(home: Path) -> None:
    """Remove a home and all that is in it, unless an Airflow runs there."""
    refuse_used_home(home)
    shutil.rmtree(home, ignore_errors=True)


def refuse_used_home(home: Path) -> None:
    """Raise when a process of this AIRFLOW_HOME is alive."""
    if running := processes_of_home(home.resolve()):
        raise DeploymentError(
            f"{home} is in use by process {', '.join(str(process.pid) for process in running)}:"
            " end that Airflow first"
        )


def free_port() -> int:
    """A TCP port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _stop_all(processes: Sequence[ManagedProcess], grace: float) -> None:
    for process in processes:
        process.signal(signal.SIGTERM)
    deadline = time.monotonic() + grace
    for process in processes:
        process.wait(max(0.0, deadline - time.monotonic()))
        process.kill_group()


def _is_foreign(key: str) -> bool:
    return key.startswith(("AIRFLOW_", "_AIRFLOW_")) or key in {"PYTHONPATH", "PYTHONHOME"}


def _keys_of(path: Path) -> dict[str, str]:
    """The secrets of this home: made once, so that a second run can read what the first has encrypted."""
    if not path.is_file():
        keys = {
            "fernet": base64.urlsafe_b64encode(os.urandom(32)).decode(),
            "jwt": secrets.token_urlsafe(48),
            "secret": secrets.token_urlsafe(48),
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(keys))
    loaded: dict[str, str] = json.loads(path.read_text())
    return loaded

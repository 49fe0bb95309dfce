"""One Airflow on SQLite for all tests of the command line, in one process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

WORKER = Path(__file__).with_name("worker.py")
OURS = ("slot_group", "slot_group_change", "slot_request", "slot_coordinator")


class Answer(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)


@dataclass
class CommandLine:
    """Runs `airflow ...` and looks into its database."""

    process: subprocess.Popen[str]
    database: Path
    log: Path

    def __call__(self, *argv: str, **env: str) -> Answer:
        """Run `airflow slotgroups ARGV`, with more environment variables."""
        return self.airflow("slotgroups", *argv, **env)

    def airflow(self, *argv: str, **env: str) -> Answer:
        """Run `airflow ARGV`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"argv": argv, "env": env}), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, f"the worker is gone: {self.log.read_text()[-3000:]}"
        return Answer(**json.loads(answer))

    @contextlib.contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A transaction on the database, apart from Airflow."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=30)) as connection, connection:
            # A test's database need not survive the machine.
            connection.execute("PRAGMA synchronous = OFF")
            yield connection

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement."""
        with self.connection() as connection:
            return connection.execute(statement, parameters).fetchall()

    def pool(self, name: str) -> tuple[Any, ...] | None:
        """Slots, include_deferred and description of a pool."""
        query = "SELECT slots, include_deferred, description FROM slot_pool WHERE pool = ?"
        return next(iter(self.sql(query, name)), None)

    def events(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Our entries in the audit log: event, who, and what."""
        query = "SELECT event, owner, extra FROM log WHERE event LIKE 'slotgroups.%' ORDER BY id"
        return [(event, owner, json.loads(extra)) for event, owner, extra in self.sql(query)]

    def clean(self) -> None:
        """Leave nothing of an earlier test."""
        with self.connection() as connection:
            for table in (*OURS, "log"):
                connection.execute(f"DELETE FROM {table}")
            connection.execute("DELETE FROM slot_pool WHERE pool <> 'default_pool'")
            connection.execute("UPDATE slot_pool SET slots = 128, include_deferred = 0")

    @contextlib.contextmanager
    def without_tables(self) -> Iterator[None]:
        """Take our tables away for a while, as before `airflow db migrate`."""
        names = (*OURS, "alembic_version_slotgroups")
        for name in names:
            self.sql(f"ALTER TABLE {name} RENAME TO away_{name}")
        try:
            yield
        finally:
            for name in names:
                self.sql(f"ALTER TABLE away_{name} RENAME TO {name}")


def environment(home: Path) -> dict[str, str]:
    """Nothing of the caller's Airflow."""
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW_", "_AIRFLOW_"))
    }
    return inherited | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "COLUMNS": "200",
        "LOGNAME": "ada",
        "NO_COLOR": "1",
    }


@pytest.fixture(scope="session")
def one_airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """The process, on a database that `airflow db migrate` has made."""
    home = tmp_path_factory.mktemp("cli-home")
    log = home / "worker.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment(home),
        )
    try:
        command_line = CommandLine(process, home / "airflow.db", log)
        assert command_line.airflow("db", "migrate").code == 0, log.read_text()
        yield command_line
    finally:
        process.communicate()


@pytest.fixture
def cli(one_airflow: CommandLine) -> CommandLine:
    """The command line on a database without groups."""
    one_airflow.clean()
    return one_airflow

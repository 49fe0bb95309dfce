"""What must be set before Airflow is imported, the seed of the random tests, and who runs which tests."""

from __future__ import annotations

import atexit
import os
import random
import shutil
import tempfile
from collections import Counter
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from devtools.servers import SERVERS

AIRFLOW_HOME = tempfile.mkdtemp(prefix="slotgroups-tests-")
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)

os.environ["AIRFLOW_HOME"] = AIRFLOW_HOME
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "WARNING"
# Tests that make the row of a scheduler start no coordinator.
os.environ["AIRFLOW__SLOTGROUPS__COORDINATOR"] = "off"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of the random tests, so that the header can show it."""
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say how to repeat this very run, and which databases take part."""
    named = [backend for backend, variable in SERVERS.items() if os.environ.get(variable)]
    return [
        f"random tests: --hypothesis-seed={config.getoption('hypothesis_seed')}",
        f"databases: {', '.join(['sqlite', *named])}",
    ]


class ByFolder(LoadScopeScheduling):
    """Several processes run tests, where pytest is told so (`-n`), and some tests belong into one of them."""

    def _split_scope(self, nodeid: str) -> str:
        """Name what one process runs in one go: what shares an Airflow or a server, else a single test."""
        path, _, test = nodeid.partition("::")
        folder, inside = path.split("/")[1:3]
        if folder == "acceptance":
            airflow = inside if inside == "side_by_side" else path
            return f"{airflow} on PostgreSQL" if "[postgres" in test else airflow
        return folder if folder in ("api", "cli", "ui") else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFolder:
    """Let processes take tests in the order of `testpaths`: those that are done at once first."""
    return ByFolder(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what tests have counted and measured (`record_property`)."""
    counted: Counter[str] = Counter()
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for name, value in report.user_properties:
            if isinstance(value, int):
                counted[name] += value
            else:
                terminalreporter.write_line(f"{name}: {value}")
    for name, number in counted.items():
        terminalreporter.write_line(f"{number:,} {name}")

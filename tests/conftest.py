"""What must be set before Airflow is imported, and the seed of the random tests."""

from __future__ import annotations

import atexit
import os
import random
import shutil
import tempfile

import pytest

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


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to repeat this very run."""
    return f"random tests: --hypothesis-seed={config.getoption('hypothesis_seed')}"

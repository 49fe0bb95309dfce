"""What Airflow or a DAG file imports in every process must stay light."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPORT = "import sys, json; json.dump(sorted(sys.modules), sys.stdout)"


def modules_after(statement: str, home: Path) -> set[str]:
    """Import something in a new process; return all modules that are loaded then."""
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{REPORT}"],
        env={**os.environ, "AIRFLOW_HOME": str(home), "PYTHONWARNINGS": "default"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def roots(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def ours(modules: set[str]) -> set[str]:
    return {module for module in modules if module.partition(".")[0] == "airflow_slotgroups"}


@pytest.mark.parametrize("module", ["airflow_slotgroups", "airflow_slotgroups.provider"])
def test_the_package_brings_neither_airflow_nor_an_orm(module: str, tmp_path: Path) -> None:
    modules = modules_after(f"import {module}", tmp_path)

    assert roots(modules).isdisjoint({"airflow", "sqlalchemy", "alembic"})
    assert ours(modules) == {"airflow_slotgroups", module}


def test_the_command_line_loads_the_descriptions_of_our_commands_alone(tmp_path: Path) -> None:
    without = modules_after("import airflow.cli.cli_config", tmp_path)
    modules = modules_after(
        "from airflow_slotgroups.cli.definitions import get_cli_commands as g; g()", tmp_path
    )

    added = {"airflow_slotgroups", "airflow_slotgroups.cli", "airflow_slotgroups.cli.definitions"}
    assert modules - without <= added
    assert ours(modules) - added <= {"airflow_slotgroups.provider"}


def test_the_plugin_brings_no_tables_into_task_processes(tmp_path: Path) -> None:
    modules = modules_after("import airflow_slotgroups.plugins.slotgroups", tmp_path)

    assert "airflow.models.taskinstance" not in modules
    assert "airflow.jobs.job" not in modules
    assert {
        one
        for one in ours(modules)
        if one.startswith(("airflow_slotgroups.models", "airflow_slotgroups.store"))
    } == set()

"""`dag.test()` passes through at once: every example, and a section by hand (S49)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(ROOT.glob("dags_examples/*.py"))

BY_HAND = '''
"""A section that is no task group."""
from airflow.sdk import DAG, task
from airflow_slotgroups import AcquireSlotsOperator, ReleaseSlotsOperator

with DAG(dag_id="by_hand", schedule=None) as dag:

    @task
    def work() -> None: ...

    acquire = AcquireSlotsOperator(task_id="acquire", pool="warehouse")
    acquire >> work() >> ReleaseSlotsOperator(task_id="release")
'''

# No pool exists, no coordinator and no triggerer runs. That the examples sleep is none of the matter.
RUN_ALL = """
import json, runpy, sys, time
from airflow.dag_processing.dagbag import DagBag

def states(dag):
    run = dag.test()
    name = lambda ti: f"{ti.task_id}[{ti.map_index}]" if ti.map_index >= 0 else ti.task_id
    return [str(run.state), {name(ti): str(ti.state) for ti in run.get_task_instances()}]

time.sleep = lambda seconds: None
bag = DagBag(sys.argv[1], bundle_name="dags-folder")
assert not bag.import_errors, bag.import_errors
found = {dag_id: states(dag) for dag_id, dag in bag.dags.items()}
# As `python by_hand.py` does it: never in a bag, so that nobody has settled its section.
found["by_hand as a script"] = states(runpy.run_path(sys.argv[1] + "/by_hand.py")["dag"])
print()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """State of the run and of its tasks, by DAG."""
    home = tmp_path_factory.mktemp("dag-test")
    dags = home / "dags"
    dags.mkdir()
    (dags / "by_hand.py").write_text(BY_HAND)
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "PYTHONWARNINGS": "default",
    }
    for path in EXAMPLES:
        (dags / path.name).write_text(path.read_text())
    run([sys.executable, "-m", "airflow", "db", "migrate"], env)
    found: dict[str, Any] = json.loads(run([sys.executable, "-c", RUN_ALL, str(dags)], env).splitlines()[-1])
    return found


def run(command: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    "dag_id", sorted({path.stem for path in EXAMPLES} | {"by_hand", "by_hand as a script"})
)
def test_it_runs_through(runs: dict[str, Any], dag_id: str) -> None:
    state, tasks = runs[dag_id]

    assert state == "success"
    assert set(tasks.values()) <= {"success", "skipped"}


def test_nobody_waits_for_slots(runs: dict[str, Any]) -> None:
    assert runs["by_hand"][1] == {"acquire": "success", "work": "success", "release": "success"}
    assert runs["demo_section"][1]["month_end.acquire_slots"] == "success"
    assert runs["demo_section_per_table"][1]["copy.locked.acquire_slots[1]"] == "success"
    assert runs["demo_max_wait"][1]["in_time"] == "success"
    assert runs["demo_max_wait"][1]["use_yesterdays_report"] == "skipped"

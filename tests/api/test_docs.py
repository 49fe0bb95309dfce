"""Every example of docs/api.md runs, on a real API server."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from airflow_slotgroups.domain.explain import RULES
from tests.api.conftest import Server
from tests.api.server import PASSWORDS

TEXT = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
PROLOGUE, *EXAMPLES = re.findall(r"```bash\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split()[1].strip('"'))
def test_an_example_runs(simple: Server, example: str) -> None:
    """With its exit code; `curl` fails on a refusal."""
    person = {"AIRFLOW": simple.url, "USERNAME": "admin", "PASSWORD": PASSWORDS["admin"], "NO_PROXY": "*"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", PROLOGUE + example],
        env={**os.environ, **person},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_answer_of_explain_is_as_written(simple: Server) -> None:
    """But for what is left out."""
    written = json.loads(next(text for text in re.findall(r"```json\n(.*?)```", TEXT, flags=re.DOTALL)))
    query = "dag_id=nightly&task_id=load&run_id=manual__1"
    answer = simple.call("viewer", "GET", f"/explain?{query}").json()
    assert answer.keys() == written.keys()
    assert answer["sentence"].startswith("waits in slot group 'warehouse', place 1, 0 ahead: ")
    assert (answer["name"], answer["pool"]) == (written["name"], written["pool"])
    assert written["checks"][0] in answer["checks"]
    assert written["checks"][1] in answer["checks"]


def test_every_name_that_explain_may_give_is_in_the_table() -> None:
    """Read from the source of the rules."""
    import inspect

    from airflow_slotgroups.domain import explain

    assert RULES
    source = inspect.getsource(explain)
    names = set(re.findall(r'(?:Check|limit_check)\(\s*"(\w+)"', source)) | {
        "up_for_retry",
        "max_active_tasks",
    }
    table = TEXT[TEXT.index("| `name` |") : TEXT.index("## What has been")]
    missing = {name for name in names if f"`{name}`" not in table}
    assert missing <= {"slot_group_ahead", "slot_group_holders"}

"""docs/authors.md keeps its word: every example is a DAG that Airflow takes, and the table is complete."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

import airflow_slotgroups

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "authors.md").read_text(encoding="utf-8")
PLAIN, IMPORTS, *REST = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
EXAMPLES = [PLAIN, *(f"{IMPORTS}\n{example}" for example in REST)]
TABLE = GUIDE[GUIDE.index("## Every public name") :]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: re.findall(r'DAG\("(\w+)"', text)[0])
def test_an_example_is_a_dag_that_airflow_takes(example: str, tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(example, encoding="utf-8")

    bag = DagBag(tmp_path, bundle_name="dags-folder")

    assert bag.import_errors == {}
    assert len(bag.dags) == 1


def test_no_example_is_long() -> None:
    assert len(EXAMPLES) >= 10
    assert max(len(example.splitlines()) for example in (PLAIN, *REST)) <= 12


@pytest.mark.parametrize("name", airflow_slotgroups.__all__)
def test_the_table_names_everything_that_is_public(name: str) -> None:
    rows = TABLE[TABLE.index(f"`{name}`") :]
    parameters = inspect.signature(getattr(airflow_slotgroups, name)).parameters

    for parameter in parameters.values():
        written = f"**{parameter.name}" if parameter.kind is parameter.VAR_KEYWORD else parameter.name
        assert f"`{written}`" in rows


def test_the_table_has_the_defaults_of_slot_args() -> None:
    for parameter in inspect.signature(airflow_slotgroups.slot_args).parameters.values():
        default = "needed" if parameter.default is parameter.empty else f"`{parameter.default}`"
        assert re.search(rf"`{parameter.name}` \| [^|]+ \| {re.escape(default)}", TABLE)

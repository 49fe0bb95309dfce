"""docs/operators.md and the README keep their word: commands parse, tables are complete."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path

import pytest
from airflow.cli import cli_parser

from airflow_slotgroups.airflow_core.audit import ACTIONS, EVENT_PREFIX, MAX_WAIT
from airflow_slotgroups.cli.definitions import COMMANDS
from airflow_slotgroups.coordinator import metrics
from airflow_slotgroups.coordinator.metrics import TIMERS, What
from airflow_slotgroups.provider import options

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
REMOVAL = (ROOT / "docs" / "removal.md").read_text(encoding="utf-8")

FENCED = re.compile(r"^(airflow slotgroups .*)$", re.MULTILINE)
INLINE = re.compile(r"`(airflow slotgroups \S[^`]*)`")
STANDS_FOR = {"NAME": "wh", "SLOTS": "3", "FILE": "groups.json"}


def command_lines() -> list[str]:
    """Every command line of the documents, without what stands behind it as a remark."""
    found = []
    for text in (GUIDE, README, REMOVAL):
        found += [line for pattern in (FENCED, INLINE) for line in pattern.findall(text)]
    return sorted(line for line in set(found) if "..." not in line)


@pytest.mark.parametrize("line", command_lines())
def test_a_command_line_parses(line: str) -> None:
    words = [STANDS_FOR.get(word, word) for word in shlex.split(line, comments=True)]
    if len(words) == 3:
        # Named in the text, without its arguments.
        assert words[2] in {command.name for command in COMMANDS}
        return

    args = cli_parser.get_parser().parse_args(words[1:])
    assert callable(args.func)


def test_the_documents_have_command_lines() -> None:
    assert len(command_lines()) > 20


def sent_gauges() -> set[str]:
    """The names in the table of `send_group`."""
    tree = ast.parse(inspect.getsource(metrics.send_group))
    [table] = (node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    return {key.value for key in table.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def test_the_table_of_metrics_is_complete() -> None:
    rows = re.findall(r"^\| `slotgroups\.(\w+)` \| (gauge|counter|timer) \|", GUIDE, re.MULTILINE)

    assert {name for name, kind in rows if kind == "gauge"} == sent_gauges()
    assert {name for name, kind in rows if kind == "counter"} == {what.value for what in What}
    assert {name for name, kind in rows if kind == "timer"} == {*TIMERS.values(), "cycle"}


def test_the_table_of_events_is_complete() -> None:
    rows = re.findall(r"^\| `slotgroups\.([\w-]+)` \| [^|]* \|$", GUIDE, re.MULTILINE)

    assert rows
    assert set(rows) == set(ACTIONS)
    assert f"`{EVENT_PREFIX}{MAX_WAIT}`" in GUIDE


def test_the_readme_names_every_command_and_every_setting() -> None:
    table = README[README.index("## The commands") : README.index("## Settings")]
    settings = README[README.index("## Settings") : README.index("## Limits")]

    assert [command.name for command in COMMANDS if f"`{command.name}" not in table] == []
    assert [option for option in options() if f"| `{option}` |" not in settings] == []

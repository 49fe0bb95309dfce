"""Every manual action has its event in the audit log, and every event its action."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from unittest import mock

import pytest

from airflow_slotgroups.airflow_core import audit
from airflow_slotgroups.airflow_core.audit import ACTIONS, EVENT_PREFIX, MAX_WAIT, write_audit
from airflow_slotgroups.cli import commands, definitions
from airflow_slotgroups.services.groups import MODE_ACTIONS

PACKAGE = Path(inspect.getfile(audit)).parents[1]

SAME = {"to-top": "prioritize"}
"""Events whose command has another name."""

OF_OTHERS = {"import"}
"""Commands that are logged as the events of what they do; tests/integration/test_transfer.py shows it."""


def changing_commands() -> set[str]:
    """Commands that Airflow keeps in its audit log as well: those dressed as `writing`."""
    tree = ast.parse(Path(inspect.getfile(commands)).read_text())
    return {
        node.name.removesuffix("_command").replace("_", "-")
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(one, ast.Name) and one.id == "writing" for one in node.decorator_list)
    }


def test_every_command_that_changes_something_is_an_event_and_the_other_way_round() -> None:
    assert changing_commands() == {SAME.get(action, action) for action in ACTIONS} | OF_OTHERS


def test_no_command_is_left_out() -> None:
    reading = {"list", "get", "queue", "history", "export", "explain", "check", "coordinator"}

    assert {command.name for command in definitions.COMMANDS} == changing_commands() | reading


def test_every_mode_that_people_set_is_an_event() -> None:
    assert set(MODE_ACTIONS.values()) <= set(ACTIONS)


def test_whatever_the_package_logs_is_known() -> None:
    """Events that are named in the code; the others come from the list of modes and of levers."""
    named = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "write_audit":
                action = node.args[1]
                if isinstance(action, ast.Constant):
                    named.add(action.value)
    assert {"set", "adopt", "dissolve", "delete"} <= named <= set(ACTIONS)


@pytest.mark.parametrize("action", [*ACTIONS, MAX_WAIT])
def test_an_entry_says_who_what_and_where(action: str) -> None:
    session = mock.Mock()
    write_audit(
        session,
        action,
        who="ada",
        task=("d", "r", "t", 3, 2),
        group="wh",
        old={"a": 1},
        new={"a": 2},
        comment="c",
    )

    [entry] = (call.args[0] for call in session.add.call_args_list)
    assert (entry.event, entry.owner) == (EVENT_PREFIX + action, "ada")
    assert (entry.dag_id, entry.run_id, entry.task_id, entry.map_index, entry.try_number) == (
        "d",
        "r",
        "t",
        3,
        2,
    )
    assert json.loads(entry.extra) == {"group": "wh", "old": {"a": 1}, "new": {"a": 2}, "comment": "c"}

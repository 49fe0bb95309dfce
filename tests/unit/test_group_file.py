"""The JSON file of `import` and `export`: what is refused, and how it is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_slotgroups.domain.errors import UnreadableFileError
from airflow_slotgroups.domain.group_file import Entry, format_entries, parse

FULL = {
    "slots": 3,
    "description": "a warehouse",
    "include_deferred": True,
    "team_name": "blue",
    "mode": "paused",
    "strategy": "backfill",
    "max_passes": 4,
    "ageing_seconds": 600,
}


def problems(content: Any) -> list[str]:
    entries, found = parse("g.json", content if isinstance(content, str) else json.dumps(content))
    assert not entries
    return found


def test_an_entry_may_name_every_setting() -> None:
    assert parse("g.json", json.dumps({"wh": FULL})) == ({"wh": Entry(**FULL)}, [])


def test_what_airflow_exports_can_be_read() -> None:
    pools = {"wh": {"slots": 3, "description": "x", "include_deferred": False}}

    assert parse("g.json", json.dumps(pools))[0]["wh"] == Entry(3, "x", include_deferred=False)


def test_what_is_written_is_read_again() -> None:
    entries = {"wh": Entry(**FULL), "münchen 🚀": Entry(-1, "")}

    assert parse("g.json", format_entries(entries)) == (entries, [])


def test_a_pool_of_no_team_says_nothing_of_teams() -> None:
    assert json.loads(format_entries({"wh": Entry(3, "")})) == {"wh": {"slots": 3, "description": ""}}


WRONG = {
    "slots are missing": ({"wh": {}}, "'wh': slots are missing; write \"slots\": and a whole number"),
    "slots are a text": (
        {"wh": {"slots": "3"}},
        "'wh': slots can not be '3'; give a whole number of 0 or more, or -1 for no limit",
    ),
    "slots are true": (
        {"wh": {"slots": True}},
        "'wh': slots can not be True; give a whole number of 0 or more, or -1 for no limit",
    ),
    "slots are too few": (
        {"wh": {"slots": -2}},
        "'wh': slots can not be -2; give a whole number of 0 or more, or -1 for no limit",
    ),
    "slots are too many": (
        {"wh": {"slots": 2**31}},
        "'wh': slots can not be 2147483648; give a whole number of 0 or more, or -1 for no limit",
    ),
    "a mode that is not for people": (
        {"wh": {"slots": 1, "mode": "dissolving"}},
        "'wh': mode can not be 'dissolving'; give one of active, paused, bypass",
    ),
    "a mode that is a list": (
        {"wh": {"slots": 1, "mode": []}},
        "'wh': mode can not be []; give one of active, paused, bypass",
    ),
    "a strategy": (
        {"wh": {"slots": 1, "strategy": "fair"}},
        "'wh': strategy can not be 'fair'; give one of strict, backfill",
    ),
    "passes": (
        {"wh": {"slots": 1, "max_passes": 0}},
        "'wh': max_passes can not be 0; give a whole number of 1 or more",
    ),
    "ageing": (
        {"wh": {"slots": 1, "ageing_seconds": 604801}},
        "'wh': ageing_seconds can not be 604801;"
        " give 1 to 604800 seconds for a point of priority, or 0 for no ageing",
    ),
    "include_deferred": (
        {"wh": {"slots": 1, "include_deferred": "yes"}},
        "'wh': include_deferred can not be 'yes'; give true or false",
    ),
    "a description": ({"wh": {"slots": 1, "description": 5}}, "'wh': description can not be 5; give a text"),
    "a text that no database takes": (
        {"wh": {"slots": 1, "description": "a\x00b"}},
        "'wh': description can not be 'a\\x00b'; give a text",
    ),
    "half of a character": (
        {"wh": {"slots": 1, "description": "\ud800"}},
        "'wh': description can not be '\\ud800'; give a text",
    ),
    "a name that no database takes": (
        {"a\x00": {"slots": 1}},
        "'a\x00': 'a\\x00' can not be a slot group: no database takes all of its characters; choose another name",
    ),
    "an unknown field": (
        {"wh": {"slots": 1, "size": 1}},
        "'wh': there is no field 'size'; the fields are slots, description, include_deferred, team_name, mode,"
        " strategy, max_passes, ageing_seconds",
    ),
    "an entry that is a number": ({"wh": 3}, "'wh': an entry can not be 3; write {\"slots\": 3}"),
    "a group twice": (
        '{"wh": {"slots": 1}, "wh": {"slots": 2}}',
        "'wh': it stands in the file twice; leave one",
    ),
    "a field twice": (
        '{"wh": {"slots": 1, "slots": 2}}',
        "'wh': slots stands in the entry twice; leave one",
    ),
    "no name": (
        {"": {"slots": 1}},
        "'': '' can not be a slot group: the name is empty; give the group a name",
    ),
}


@pytest.mark.parametrize(
    ("content", "text"), [pytest.param(*row, id=sentence) for sentence, row in WRONG.items()]
)
def test_what_is_wrong_is_said_with_entry_value_and_remedy(content: Any, text: str) -> None:
    assert problems(content) == [text]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    entries, found = parse(
        "g.json", json.dumps({"a": {"slots": "x", "mode": "y"}, "b": 1, "c": {"slots": 1}})
    )

    assert list(entries) == ["c"]
    assert [line.partition(":")[0] for line in found] == ["'a'", "'a'", "'b'"]


def test_a_group_and_its_running_pool_are_not_both_groups() -> None:
    _, found = parse("g.json", json.dumps({"wh": {"slots": 1}, "wh.running": {"slots": 1}}))

    assert found == [
        "'wh.running': it is the running pool of 'wh', which is in the file as well; leave it out"
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{", "g.json: it is no JSON: Expecting property name enclosed in double quotes"),
        ("", "g.json: it is no JSON: Expecting value"),
        ("[]", "g.json: it is no JSON object"),
        ("null", "g.json: it is no JSON object"),
    ],
)
def test_a_file_that_is_something_else(content: str, text: str) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        parse("g.json", content)

    assert caught.value.message.startswith(text)

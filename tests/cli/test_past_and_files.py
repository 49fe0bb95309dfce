"""`history`, `import` and `export` through Airflow's own parser, on SQLite."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Answer, CommandLine


def good(answer: Answer) -> Answer:
    assert (answer.code, answer.err) == (0, ""), answer.err
    return answer


def add_ended(cli: CommandLine, minutes_ago: float, waited: float = 2, held: float = 3) -> None:
    """A request that ended so long ago."""

    def moment(minutes: float) -> str:
        when = datetime.now(timezone.utc) - timedelta(minutes=minutes)
        return when.strftime("%Y-%m-%d %H:%M:%S.%f")

    arrived = moment(minutes_ago + held + waited)
    values: dict[str, Any] = {
        "pool": "wh",
        "kind": "task",
        "dag_id": "d",
        "run_id": "r",
        "task_id": "t",
        "map_index": -1,
        "try_number": 1,
        "slots": 2,
        "priority": 5,
        "order_major": -5,
        "order_minor": 0,
        "state": "released",
        "admission": "queue",
        "suspended": 0,
        "forced": 0,
        "passes": 0,
        "was_queued": 1,
        "enqueued_at": arrived,
        "arrived_at": arrived,
        "granted_at": moment(minutes_ago + held),
        "ended_at": moment(minutes_ago),
        "end_reason": "ended",
    }
    marks = ", ".join("?" * len(values))
    cli.sql(f"INSERT INTO slot_request ({', '.join(values)}) VALUES ({marks})", *values.values())


def test_the_history_of_the_last_day_by_the_hour(cli: CommandLine) -> None:
    good(cli("set", "wh", "4"))
    add_ended(cli, 30)
    rows = good(cli("history", "wh", "-o", "json")).json

    assert len(rows) == 24
    assert {key: rows[-1][key] for key in rows[-1] if key != "from"} == {
        "granted": 1,
        "wait_median": 120.0,
        "wait_p95": 120.0,
        "hold_median": 180.0,
        "hold_p95": 180.0,
        "most_used": 2,
        "most_waiting": 1,
        "size": 4,
    }
    assert rows[0]["size"] is None
    assert rows[0]["wait_median"] is None
    datetime.strptime(rows[0]["from"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    assert len(good(cli("history", "wh", "--hours", "2", "--buckets", "3", "-o", "json")).json) == 3


def test_the_requests_that_have_ended(cli: CommandLine) -> None:
    good(cli("set", "wh", "4"))
    for minutes in (30, 10, 20):
        add_ended(cli, minutes)
    rows = good(cli("history", "wh", "--requests", "--limit", "2", "-o", "json")).json

    assert [row["ended"] for row in rows] == sorted((row["ended"] for row in rows), reverse=True)
    assert len(rows) == 2
    assert (rows[0]["waited"], rows[0]["held"], rows[0]["end_reason"]) == (120.0, 180.0, "ended")
    assert (rows[0]["state"], rows[0]["came_in_by"], rows[0]["slots"]) == ("released", "queue", 2)


@pytest.mark.parametrize("output", ["table", "plain", "yaml"])
def test_the_history_for_eyes(cli: CommandLine, output: str) -> None:
    good(cli("set", "wh", "4"))
    add_ended(cli, 30)

    assert "180" in good(cli("history", "wh", "-o", output)).out
    assert "released" in good(cli("history", "wh", "--requests", "-o", output)).out


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("--hours", "0"), "hours can not be 0.0; give more than 0, and at most 8784"),
        (("--buckets", "0"), "buckets can not be 0; give 1 to 1000"),
        (("--requests", "--limit", "0"), "limit can not be 0; give 1 to 10000"),
    ],
)
def test_no_stretch_of_time(cli: CommandLine, argv: tuple[str, ...], text: str) -> None:
    good(cli("set", "wh", "4"))

    assert cli("history", "wh", *argv) == (1, "", f"Error: {text}")


def test_groups_go_to_a_file_and_come_back(cli: CommandLine, tmp_path: Path) -> None:
    file = str(tmp_path / "groups.json")
    good(cli("set", "wh", "4", "a warehouse", "--strategy", "backfill"))
    good(cli("set", "other", "-1"))
    assert good(cli("export", file)).out == f"Exported 2 slot groups to {file}\n"
    before = json.loads(Path(file).read_text())
    assert (before["wh"]["slots"], before["other"]["slots"]) == (4, -1)
    for name in ("wh", "other"):
        good(cli("delete", name))

    done = good(cli("import", file, "--comment", "moved"))
    assert done.out == "Slot group 'other' made\nSlot group 'wh' made\n"
    good(cli("export", file))
    assert json.loads(Path(file).read_text()) == before
    assert cli.events()[-1][2]["comment"] == f"imported from {file}: moved"


def test_an_import_of_nothing_says_so(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    file.write_text("{}")
    assert good(cli("import", str(file))).out == f"{file} names no group: nothing to import\n"


def test_an_import_says_when_it_leaves_a_group_that_does_not_queue(cli: CommandLine, tmp_path: Path) -> None:
    file = str(tmp_path / "groups.json")
    good(cli("set", "wh", "4"))
    assert good(cli("bypass", "wh")).out == "Slot group 'wh' is in bypass: 0 of no limit in use, 0 waiting\n"
    good(cli("export", file))
    good(cli("resume", "wh"))

    assert good(cli("import", file)).out == "Slot group 'wh' changed; its mode is bypass\n"
    assert good(cli("import", file)).out == "Slot group 'wh' unchanged\n"


def test_airflow_can_read_an_export(cli: CommandLine, tmp_path: Path) -> None:
    """For a deployment without slot groups: plain pools of the real sizes."""
    file = str(tmp_path / "groups.json")
    good(cli("set", "wh", "4", "a warehouse"))
    good(cli("export", file))
    good(cli("delete", "wh"))
    good(cli.airflow("pools", "import", file))

    assert cli.pool("wh") == (4, 0, "a warehouse")


def test_pools_that_airflow_exported_become_groups(cli: CommandLine, tmp_path: Path) -> None:
    file = str(tmp_path / "pools.json")
    good(cli.airflow("pools", "set", "wh", "4", "a warehouse"))
    good(cli.airflow("pools", "export", file))
    refused = cli("import", file)
    assert refused.err == (
        f"Error: {file}: nothing was imported; mend the file:\n"
        "  'default_pool': it is an ordinary pool; adopt it as well ('--adopt', 'adopt' in the API), or leave it out\n"
        "  'wh': it is an ordinary pool; adopt it as well ('--adopt', 'adopt' in the API), or leave it out"
    )

    done = good(cli("import", file, "--adopt"))
    assert done.out == "Slot group 'default_pool' adopted\nSlot group 'wh' adopted\n"
    assert [one["slots"] for one in cli("list", "-o", "json").json] == [128, 4]


def test_a_file_that_is_wrong_is_told_line_by_line(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"a": {"slots": "x"}, "b": {"slots": 1}, "c": {"size": 1}}))
    answer = cli("import", str(file))

    assert answer.code == 1
    assert answer.err.splitlines() == [
        f"Error: {file}: nothing was imported; mend the file:",
        "  'a': slots can not be 'x'; give a whole number of 0 or more, or -1 for no limit",
        "  'c': slots are missing; write \"slots\": and a whole number",
        "  'c': there is no field 'size'; the fields are slots, description, include_deferred, team_name, mode,"
        " strategy, max_passes, ageing_seconds",
    ]
    assert cli("list", "-o", "json").json == []


def test_a_file_that_is_not_there(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "nowhere.json"

    assert cli("import", str(file)) == (
        1,
        "",
        f"Error: {file}: it can not be read: No such file or directory; name another",
    )


def test_missing_tables_are_named(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    file.write_text('{"wh": {"slots": 1}}')
    with cli.without_tables():
        for argv in (("history", "wh"), ("export", str(file)), ("import", str(file))):
            assert cli(*argv).err == "Error: the tables of slot groups are missing; run 'airflow db migrate'"

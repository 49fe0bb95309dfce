"""`airflow slotgroups ...` through Airflow's own parser, on SQLite."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]  # its types are a package of their own

if TYPE_CHECKING:
    from conftest import Answer, CommandLine

STATUS = {
    "pool": "wh",
    "slots": 2,
    "mode": "active",
    "strategy": "strict",
    "ageing_seconds": 0,
    "used": 0,
    "free": 2,
    "overdraft": 0,
    "waiting": 0,
    "description": "a warehouse",
    "notice": None,
}


def good(answer: Answer) -> Answer:
    assert (answer.code, answer.err) == (0, ""), answer.err
    return answer


def refused(answer: Answer, text: str) -> None:
    assert answer == (1, "", f"Error: {text}")


def add_request(
    cli: CommandLine,
    state: str = "waiting",
    task_id: str = "t",
    priority: int = 1,
    notice: str | None = None,
) -> None:
    """A request of a task instance that does not exist."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
    values: dict[str, Any] = {
        "pool": "wh",
        "kind": "task",
        "dag_id": "d",
        "run_id": "r",
        "task_id": task_id,
        "map_index": -1,
        "try_number": 1,
        "slots": 1,
        "priority": priority,
        "order_major": -priority,
        "order_minor": 0,
        "state": state,
        "live": 1,
        "admission": "queue" if state == "granted" else None,
        "suspended": 0,
        "forced": 0,
        "passes": 0,
        "was_queued": 0,
        "enqueued_at": now,
        "arrived_at": now,
        "granted_at": now if state == "granted" else None,
        "notice": notice,
    }
    marks = ", ".join("?" * len(values))
    cli.sql(f"INSERT INTO slot_request ({', '.join(values)}) VALUES ({marks})", *values.values())


def add_coordinator(cli: CommandLine, silent_for: timedelta = timedelta(0), error: str | None = None) -> None:
    heartbeat = (datetime.now(timezone.utc) - silent_for).strftime("%Y-%m-%d %H:%M:%S.%f")
    cli.sql(
        "INSERT INTO slot_coordinator (id, hostname, pid, version, started_at, heartbeat_at, error)"
        " VALUES ('1', 'host', 42, '0.1.0', ?, ?, ?)",
        heartbeat,
        heartbeat,
        error,
    )


# Making, showing, changing, deleting


def test_a_group_is_made_with_its_pools(cli: CommandLine) -> None:
    assert good(cli("set", "wh", "2", "a warehouse")).out == "Slot group 'wh' made: 2 slots\n"

    assert cli.pool("wh") == (0, 0, "a warehouse")
    slots, include_deferred, _ = cli.pool("wh.running") or ()
    assert (slots, include_deferred) == (2, 1)
    assert good(cli("list", "-o", "json")).json == [STATUS]
    assert good(cli("get", "wh", "-o", "json")).json == [STATUS]


def test_it_is_shown_for_eyes_and_for_programs(cli: CommandLine) -> None:
    good(cli("set", "wh", "2", "a warehouse"))

    assert yaml.safe_load(good(cli("list", "-o", "yaml")).out) == [STATUS]
    for output in ("table", "plain"):
        head, *rest = good(cli("list", "-o", output)).out.strip().splitlines()
        assert re.split(r"[ |]+", head.strip()) == [name for name in STATUS if name != "notice"]
        assert re.match(r"wh[ |]+2[ |]+active[ |]+strict", rest[-1])
    assert good(cli("list")).out == good(cli("list", "-o", "table")).out


def test_no_groups_are_an_empty_list(cli: CommandLine) -> None:
    assert good(cli("list", "-o", "json")).json == []
    assert yaml.safe_load(good(cli("list", "-o", "yaml")).out) == []
    assert good(cli("list")).out == "There is no slot group; make one with 'airflow slotgroups set'\n"


@pytest.mark.parametrize("output", ["table", "plain"])
def test_an_empty_group_says_so(cli: CommandLine, output: str) -> None:
    good(cli("set", "wh", "1"))

    assert good(cli("queue", "wh", "-o", output)).out == "Nobody holds or waits in 'wh'\n"
    assert good(cli("history", "wh", "--requests", "-o", output)).out == "No request of 'wh' has ended\n"
    assert good(cli("queue", "wh", "-o", "json")).json == []


def test_what_is_to_be_known_of_a_group_stands_below_the_table(cli: CommandLine) -> None:
    good(cli("set", "wh", "1"))
    cli.sql("UPDATE slot_group SET notice = 'mind the gap'")

    for command in (("list",), ("get", "wh")):
        assert good(cli(*command)).out.splitlines()[-1] == "wh: mind the gap"


def test_a_group_is_changed_and_what_is_not_named_stays(cli: CommandLine) -> None:
    good(cli("set", "wh", "2", "a warehouse"))
    changed = good(
        cli("set", "wh", "5", "--strategy", "backfill", "--max-passes", "3", "--ageing-seconds", "600")
    )
    assert changed.out == "Slot group 'wh' changed: 5 slots\n"

    after = {"slots": 5, "free": 5, "strategy": "backfill", "ageing_seconds": 600}
    assert cli("get", "wh", "-o", "json").json == [STATUS | after]
    assert cli.sql("SELECT max_passes FROM slot_group") == [(3,)]
    assert (cli.pool("wh") or ())[0] == 0
    assert (cli.pool("wh.running") or ())[0] == 5


def test_a_group_without_a_limit(cli: CommandLine) -> None:
    assert good(cli("set", "wh", "-1")).out == "Slot group 'wh' made: no limit\n"

    assert " no limit " in good(cli("get", "wh")).out
    [status] = cli("get", "wh", "-o", "json").json
    assert (status["slots"], status["free"]) == (-1, None)


@pytest.mark.parametrize("name", ["ware house", "a.b", "münchen", "🚀", "it's", "x" * 248])
def test_names_of_all_kinds(cli: CommandLine, name: str) -> None:
    good(cli("set", name, "1"))

    assert cli("get", name, "-o", "json").json[0]["pool"] == name
    good(cli("delete", name))


def test_a_name_in_brackets_is_shown_as_it_is(cli: CommandLine) -> None:
    good(cli("set", "[red]wh[/red]", "1", "for [bold] ones"))

    assert "[red]wh[/red]" in cli("list").out
    assert "for [bold] ones" in cli("list").out


def test_a_group_is_deleted_with_its_pools(cli: CommandLine) -> None:
    good(cli("set", "wh", "2"))
    assert good(cli("delete", "wh")).out == "Slot group 'wh' deleted, and its pool\n"

    assert cli("list", "-o", "json").json == []
    assert (cli.pool("wh"), cli.pool("wh.running")) == (None, None)


def test_the_default_pool_outlives_its_group(cli: CommandLine) -> None:
    good(cli("adopt", "default_pool"))
    deleted = good(cli("delete", "default_pool"))

    assert deleted.out == "Slot group 'default_pool' deleted; the pool itself stays, Airflow needs it\n"
    assert (cli.pool("default_pool") or ())[:2] == (128, 0)


# Adopting and dissolving


def test_a_pool_is_adopted_and_dissolved(cli: CommandLine) -> None:
    good(cli.airflow("pools", "set", "wh", "4", "a warehouse", "--include-deferred"))
    before = cli.pool("wh")
    adopted = good(cli("adopt", "wh", "--strategy", "backfill", "-c", "too slow"))

    assert adopted.out.splitlines() == [
        "Pool 'wh' is a slot group now: 0 of 4 slots in use",
        "Deferred tasks that were let in hold their slots until they end",
    ]
    assert cli("get", "wh", "-o", "json").json == [STATUS | {"slots": 4, "free": 4, "strategy": "backfill"}]
    assert (cli.pool("wh") or ())[0] == 0

    assert good(cli("dissolve", "wh")).out == "'wh' is an ordinary pool again\n"
    assert cli.pool("wh") == before
    assert cli.pool("wh.running") is None
    assert cli("list", "-o", "json").json == []


def test_adopting_the_default_pool_says_what_it_means(cli: CommandLine) -> None:
    adopted = good(cli("adopt", "default_pool"))

    assert adopted.out.splitlines()[-1] == (
        "'default_pool' is the pool of every task that names none: all of them share this one queue now"
    )


def test_every_change_is_in_the_audit_log(cli: CommandLine) -> None:
    good(cli("set", "wh", "2", "-c", "new"))
    good(cli("set", "wh", "3", "-c", "more"))
    good(cli("delete", "wh", "-c", "gone"))

    made, changed, deleted = cli.events()
    assert [made[0], changed[0], deleted[0]] == ["slotgroups.set", "slotgroups.set", "slotgroups.delete"]
    assert {made[1], changed[1], deleted[1]} == {"ada"}
    assert (made[2]["group"], made[2]["new"]["slots"], made[2]["comment"]) == ("wh", 2, "new")
    assert (changed[2]["old"]["slots"], changed[2]["new"]["slots"]) == (2, 3)
    assert (deleted[2]["old"]["slots"], deleted[2]["comment"]) == (3, "gone")


def test_what_was_refused_is_not_in_the_audit_log(cli: CommandLine) -> None:
    cli("set", "default_pool", "2")
    cli("adopt", "nope")

    assert cli.events() == []


# The queue


def test_the_queue_shows_holders_then_waiters_in_order_and_why(cli: CommandLine) -> None:
    good(cli("set", "wh", "2"))
    add_request(cli, task_id="low", priority=1)
    add_request(cli, task_id="high", priority=9)
    add_request(cli, "granted", task_id="runs", priority=5)
    entries = good(cli("queue", "wh", "-o", "json")).json

    assert [(one["task_id"], one["position"], one["state"]) for one in entries] == [
        ("runs", None, "granted"),
        ("high", 1, "waiting"),
        ("low", 2, "waiting"),
    ]
    assert [one["reason"] for one in entries] == [
        "holds its slots",
        "the task instance waits no longer",
        "the task instance waits no longer",
    ]
    assert [one["reason_code"] for one in entries] == ["queue", "not_waiting", "not_waiting"]
    assert {(one["dag_id"], one["run_id"], one["slots"]) for one in entries} == {("d", "r", 1)}


def test_the_queue_can_be_cut_short(cli: CommandLine) -> None:
    good(cli("set", "wh", "2"))
    for number in range(3):
        add_request(cli, task_id=f"t{number}")

    assert [one["position"] for one in cli("queue", "wh", "--limit", "2", "-o", "json").json] == [1, 2]


def test_the_table_leaves_out_columns_that_say_nothing(cli: CommandLine) -> None:
    """A terminal is narrow; for machines all of them are there."""
    good(cli("set", "wh", "2"))
    add_request(cli)
    columns = good(cli("queue", "wh")).out.splitlines()[0].replace(" ", "").split("|")
    assert "task_id" in columns
    assert not {"map_index", "try_number"} & set(columns), columns
    assert {"map_index", "try_number"} <= good(cli("queue", "wh", "-o", "json")).json[0].keys()
    cli.sql("UPDATE slot_request SET map_index = 3")
    assert "map_index" in good(cli("queue", "wh")).out.splitlines()[0]


@pytest.mark.parametrize("output", ["table", "plain", "yaml"])
def test_the_queue_for_eyes(cli: CommandLine, output: str) -> None:
    good(cli("set", "wh", "2"))
    add_request(cli, "granted", task_id="runs")

    assert "holds its slots" in good(cli("queue", "wh", "-o", output)).out


def test_what_is_to_be_known_of_a_waiter_stands_below_the_table(cli: CommandLine) -> None:
    good(cli("set", "wh", "2"))
    add_request(cli, notice="conf['slot_priority'] is 'x', no whole number of 32 bits: ignored")

    assert good(cli("queue", "wh")).out.splitlines()[-1] == (
        "d.t of r: conf['slot_priority'] is 'x', no whole number of 32 bits: ignored"
    )
    assert good(cli("queue", "wh", "-o", "json")).json[0]["notice"].startswith("conf['slot_priority']")


def test_a_group_in_use_is_not_deleted(cli: CommandLine) -> None:
    good(cli("set", "wh", "2"))
    add_request(cli)
    add_request(cli, "granted", task_id="u")

    refused(
        cli("delete", "wh"),
        "slot group 'wh' is in use: 1 waiting, 1 holding;"
        " wait, or keep the pool with 'airflow slotgroups dissolve'",
    )
    assert cli("get", "wh").code == 0


# Mistakes


UNKNOWN = (
    "there is no slot group 'nope'; list the groups with 'airflow slotgroups list',"
    " make one with 'airflow slotgroups set'"
)
ORDINARY = (
    "'my pool' is an ordinary pool; turn it into a slot group with 'airflow slotgroups adopt 'my pool'',"
    " or use 'airflow pools'"
)
RUNNING = "'wh.running' is the running pool of slot group 'wh'; name 'wh' instead"
TOO_LONG = "x" * 249
LONG = (
    f"'{TOO_LONG}' can not be a slot group: the name has 249 characters; choose one of at most 248, so that"
    " '<name>.running' still is a pool's name"
)

MISTAKES = {
    "get of an unknown group": (("get", "nope"), UNKNOWN),
    "queue of an unknown group": (("queue", "nope"), UNKNOWN),
    "delete of an unknown group": (("delete", "nope"), UNKNOWN),
    "dissolve of an unknown group": (("dissolve", "nope"), UNKNOWN),
    "adopt of an unknown pool": (
        ("adopt", "nope"),
        "there is no pool 'nope'; make a slot group with 'airflow slotgroups set nope SLOTS'",
    ),
    "set on an ordinary pool": (("set", "my pool", "3"), ORDINARY),
    "get of an ordinary pool": (("get", "my pool"), ORDINARY),
    "dissolve of an ordinary pool": (("dissolve", "my pool"), ORDINARY),
    "delete of an ordinary pool": (("delete", "my pool"), ORDINARY),
    "adopt of a group": (
        ("adopt", "wh"),
        "'wh' is a slot group already; change it with 'airflow slotgroups set', see it with 'get'",
    ),
    "set of a running pool": (("set", "wh.running", "3"), RUNNING),
    "adopt of a running pool": (("adopt", "wh.running"), RUNNING),
    "get of a running pool": (("get", "wh.running"), RUNNING),
    "adopt where the running pool's name is taken (S73)": (
        ("adopt", "taken"),
        "a pool 'taken.running' exists already, and the group needs that name for its running pool;"
        " rename or delete that pool in Admin → Pools (if it is a slot group itself, with"
        " 'airflow slotgroups delete taken.running'), then try again",
    ),
    "set where the running pool's name is taken (S73)": (
        ("set", "new", "3"),
        "a pool 'new.running' exists already, and the group needs that name for its running pool;"
        " rename or delete that pool in Admin → Pools (if it is a slot group itself, with"
        " 'airflow slotgroups delete new.running'), then try again",
    ),
    "no priority at all": (
        ("prioritize", "wh", "--all"),
        "neither --priority nor --top is given; give one of them",
    ),
    "two priorities": (
        ("prioritize", "wh", "--all", "--top", "--priority", "3"),
        "both --priority and --top are given; give one of them",
    ),
    "too few slots": (("set", "new", "-2"), "slots can not be -2; give 0 or more, or -1 for no limit"),
    "too few slots of a group": (
        ("set", "wh", "-2"),
        "slots can not be -2; give 0 or more, or -1 for no limit",
    ),
    "too few passes": (
        ("set", "wh", "3", "--max-passes", "0"),
        "max_passes can not be 0; give 1 or more, or use strategy 'strict'",
    ),
    "too much ageing": (
        ("set", "wh", "3", "--ageing-seconds", "604801"),
        "ageing_seconds can not be 604801;"
        " give 1 to 604800 seconds for a point of priority, or 0 for no ageing",
    ),
    "negative ageing": (
        ("set", "wh", "3", "--ageing-seconds", "-1"),
        "ageing_seconds can not be -1; give 1 to 604800 seconds for a point of priority, or 0 for no ageing",
    ),
    "too long a name": (("set", TOO_LONG, "3"), LONG),
    "adopt of a pool with too long a name": (("adopt", TOO_LONG), LONG),
    "an empty name": (
        ("set", "", "3"),
        "'' can not be a slot group: the name is empty; give the group a name",
    ),
    "the name of the pool of forced starts": (
        ("set", "slotgroups.unlimited", "3"),
        "'slotgroups.unlimited' can not be a slot group: forced starts use that pool; choose another name",
    ),
    "no lines of a queue": (("queue", "wh", "--limit", "0"), "--limit can not be 0; give 1 or more"),
    "a coordinator that schedulers start": (
        ("coordinator",),
        "[slotgroups] coordinator can not be 'scheduler'; set it to 'external' to run coordinators by themselves",
    ),
}


@pytest.mark.parametrize(
    ("argv", "text"), [pytest.param(*row, id=sentence) for sentence, row in MISTAKES.items()]
)
def test_a_mistake_is_one_line_and_changes_nothing(
    cli: CommandLine, argv: tuple[str, ...], text: str
) -> None:
    good(cli("set", "wh", "2"))
    for name in ("my pool", "taken", "taken.running", "new.running"):
        good(cli.airflow("pools", "set", name, "1", ""))
    before = cli.sql("SELECT * FROM slot_pool ORDER BY id"), cli.sql("SELECT pool, slots FROM slot_group")

    refused(cli(*argv), text)
    assert (
        cli.sql("SELECT * FROM slot_pool ORDER BY id"),
        cli.sql("SELECT pool, slots FROM slot_group"),
    ) == before


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("set", "wh", "many"), "argument SLOTS: invalid int value: 'many'"),
        (("set", "wh"), "the following arguments are required: SLOTS"),
        (("set", "wh", "1", "--strategy", "fair"), "argument --strategy: invalid choice: 'fair'"),
        (("list", "-o", "xml"), "argument -o/--output: invalid choice: 'xml'"),
        ((), "the following arguments are required: COMMAND"),
    ],
)
def test_a_command_line_that_can_not_be_read(cli: CommandLine, argv: tuple[str, ...], text: str) -> None:
    answer = cli(*argv)

    assert answer.code == 2
    assert text in answer.err


def test_the_help_names_every_command(cli: CommandLine) -> None:
    answer = cli("--help")
    named = re.findall(r"^    ([a-z-]+)(?: |$)", answer.out, re.MULTILINE)

    assert answer.code == 0
    commands = {"list", "get", "set", "delete", "adopt", "dissolve", "queue", "check", "coordinator"}
    assert commands <= set(named)
    assert "where coordinator in section slotgroups is 'external'" in answer.out


NEEDS_TABLES = [
    ("list",),
    ("get", "wh"),
    ("set", "wh", "1"),
    ("delete", "wh"),
    ("adopt", "default_pool"),
    ("dissolve", "wh"),
    ("queue", "wh"),
]


@pytest.mark.parametrize("argv", NEEDS_TABLES, ids=" ".join)
def test_missing_tables_name_the_command_that_makes_them(cli: CommandLine, argv: tuple[str, ...]) -> None:
    with cli.without_tables():
        refused(cli(*argv), "the tables of slot groups are missing; run 'airflow db migrate'")


def test_tables_of_another_version_name_it_too(cli: CommandLine) -> None:
    [(wanted,)] = cli.sql("SELECT version_num FROM alembic_version_slotgroups")
    cli.sql("UPDATE alembic_version_slotgroups SET version_num = '0000'")
    try:
        refused(
            cli("list"),
            f"the tables of slot groups are at version 0000, not {wanted}; run 'airflow db migrate'",
        )
    finally:
        cli.sql("UPDATE alembic_version_slotgroups SET version_num = ?", wanted)


# check


def problems(answer: Answer) -> list[tuple[str, str]]:
    assert answer.code == (1 if answer.json else 0)
    return [(one["problem"], f"{one['where']}: {one['what']}; {one['remedy']}") for one in answer.json]


def test_all_is_well(cli: CommandLine) -> None:
    good(cli("set", "wh", "2"))
    add_coordinator(cli)

    assert good(cli("check")).out == "All is well: a coordinator is alive and every slot group is served\n"
    assert good(cli("check", "-o", "json")).json == []


NOBODY = "coordinators: no coordinator is alive: nobody is let in; "


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("scheduler", NOBODY + "start the scheduler, or see its log: it starts the coordinator"),
        ("external", NOBODY + "run 'airflow slotgroups coordinator'"),
        ("off", NOBODY + "set [slotgroups] coordinator to 'scheduler' and restart the scheduler"),
        (
            "elsewhere",
            "configuration: no coordinator is alive: nobody is let in; [slotgroups] coordinator can not be"
            " 'elsewhere'; set it to one of scheduler, external, off in airflow.cfg",
        ),
    ],
)
def test_no_coordinator_is_alive(cli: CommandLine, place: str, text: str) -> None:
    add_coordinator(cli, silent_for=timedelta(seconds=20))
    answer = cli("check", "-o", "json", AIRFLOW__SLOTGROUPS__COORDINATOR=place)

    assert problems(answer) == [("coordinator", text)]


def test_a_problem_is_shown_in_full_for_eyes(cli: CommandLine) -> None:
    answer = cli("check", AIRFLOW__SLOTGROUPS__COORDINATOR="off")

    assert answer.code == 1
    assert "set [slotgroups] coordinator to 'scheduler' and restart the scheduler" in answer.out


def test_what_ails_a_coordinator(cli: CommandLine) -> None:
    add_coordinator(cli, error="slot group 'wh': ValueError: x")

    assert problems(cli("check", "-o", "json")) == [
        (
            "coordinator",
            "coordinator host:42: slot group 'wh': ValueError: x; see the log of the scheduler beside it",
        )
    ]


def test_a_coordinator_of_another_version(cli: CommandLine) -> None:
    add_coordinator(cli)
    cli.sql("UPDATE slot_coordinator SET version = '0.0.9'")

    assert problems(cli("check", "-o", "json")) == [
        ("version", "coordinator host:42: runs version 0.0.9, this is 0.1.0; restart its scheduler")
    ]


def test_pools_that_are_not_as_they_should_be(cli: CommandLine) -> None:
    for name in ("missing", "opened", "half", "good"):
        good(cli("set", name, "2"))
    add_coordinator(cli)
    cli.sql("DELETE FROM slot_pool WHERE pool IN ('missing', 'half.running')")
    cli.sql("UPDATE slot_pool SET slots = 7 WHERE pool = 'opened'")
    found = problems(cli("check", "-o", "json"))

    assert [(code, text.partition(";")[0]) for code, text in found] == [
        ("pool_missing", "half: pool 'half.running' is missing"),
        ("pool_missing", "missing: pool 'missing' is missing: its tasks can not run"),
        ("pool_open", "opened: pool 'opened' was opened by hand to 7 slots"),
    ]
    assert "airflow pools set missing 2" in found[1][1]


def test_check_without_tables(cli: CommandLine) -> None:
    with cli.without_tables():
        assert problems(cli("check", "-o", "json")) == [
            ("tables", "database: the tables of slot groups are missing; run 'airflow db migrate'")
        ]


def test_the_options_are_listed_by_airflow(cli: CommandLine) -> None:
    listed = cli.airflow("config", "list", "--section", "slotgroups", "--show-values").out

    assert "[slotgroups]\ncoordinator = scheduler\n" in listed
    assert "lease_seconds = 60\n" in listed

"""`export` and `import` on each database: all of a file or nothing of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from airflow.models.log import Log
from airflow.models.team import Team

from airflow_slotgroups.domain.errors import ImportRefusedError, UnreadableFileError
from airflow_slotgroups.domain.states import Mode, Strategy
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.services import groups, requests
from airflow_slotgroups.services.transfer import Done, export_file, import_file
from tests.integration.conftest import backends
from tests.integration.support.world import WHO, World

ONE = pytest.mark.parametrize("database", backends("sqlite"), indirect=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "groups.json"


def take(file: Path, content: Any, **options: Any) -> dict[str, Done]:
    file.write_text(json.dumps(content))
    return import_file(str(file), who=WHO, **options)


def refused(file: Path, content: Any, **options: Any) -> list[str]:
    with pytest.raises(ImportRefusedError) as caught:
        take(file, content, **options)
    assert str(caught.value).startswith(f"{file}: ")
    return caught.value.problems


def exported(file: Path) -> Any:
    export_file(str(file))
    return json.loads(file.read_text())


def everything(world: World) -> list[Any]:
    """Pools and groups, to compare."""
    pools = sa.text("SELECT pool, slots, description FROM slot_pool ORDER BY pool")
    stored = sa.text("SELECT pool, slots, mode, strategy FROM slot_group ORDER BY pool")
    with world.database.session() as session:
        return [session.execute(query).all() for query in (pools, stored)]


def test_an_export_carries_the_real_sizes_and_no_helper_pools(world: World, file: Path) -> None:
    world.dag("dag")
    world.run("dag", "run")
    world.pool("wh", 4, include_deferred=True, description="a warehouse")
    world.pool("ordinary", 9)
    groups.adopt("wh", groups.GroupChange(strategy=Strategy.BACKFILL, ageing_seconds=60), who=WHO)
    world.group("münchen 🚀", -1)
    groups.set_mode("münchen 🚀", Mode.PAUSED, who=WHO)
    world.task("t", "wh")
    world.task("waits", "wh", pool_slots=4)
    world.round()
    requests.force_start("wh", [Which(task_id="waits")], who=WHO)

    assert exported(file) == {
        "wh": {
            "slots": 4,
            "description": "a warehouse",
            "include_deferred": True,
            "mode": "active",
            "strategy": "backfill",
            "max_passes": 10,
            "ageing_seconds": 60,
        },
        "münchen 🚀": {
            "slots": -1,
            "description": "",
            "include_deferred": False,
            "mode": "paused",
            "strategy": "strict",
            "max_passes": 10,
            "ageing_seconds": 0,
        },
    }


def test_what_was_exported_makes_the_same_groups_again(world: World, file: Path) -> None:
    world.group("a", 2, strategy=Strategy.BACKFILL, max_passes=3, description="x")
    world.group("b", 0)
    groups.set_mode("b", Mode.BYPASS, who=WHO)
    before = exported(file)
    for name in ("a", "b"):
        groups.delete(name, who=WHO)

    assert take(file, before) == {"a": Done.MADE, "b": Done.MADE}
    assert exported(file) == before
    assert (world.pools("a"), world.pools("b")) == ((0, 2), (0, -1))
    assert take(file, before) == {"a": Done.UNCHANGED, "b": Done.UNCHANGED}


def test_groups_are_changed_and_what_is_not_named_stays(world: World, file: Path) -> None:
    world.group("a", 2, description="x", ageing_seconds=60)
    world.group("b", 3)

    assert take(file, {"a": {"slots": 5, "mode": "paused"}}) == {"a": Done.CHANGED}
    found = exported(file)
    assert (found["a"]["slots"], found["a"]["mode"]) == (5, "paused")
    assert (found["a"]["description"], found["a"]["ageing_seconds"]) == ("x", 60)
    assert found["b"]["slots"] == 3


def test_ordinary_pools_are_taken_over_only_when_told_to(world: World, file: Path) -> None:
    world.dag("dag")
    world.run("dag", "run")
    world.pool("wh", 4, include_deferred=True)
    running = world.task("runs", "wh", state="running")
    entries = {"wh": {"slots": 6, "description": "now a group"}}
    before = everything(world)

    assert refused(file, entries) == [
        "'wh': it is an ordinary pool; adopt it as well ('--adopt', 'adopt' in the API), or leave it out"
    ]
    assert everything(world) == before
    assert take(file, entries, take_pools=True) == {"wh": Done.ADOPTED}
    assert world.pools("wh") == (0, 6)
    assert world.state_of(running) == ["granted"]
    assert exported(file)["wh"]["include_deferred"] is True


WRONG_LAST: dict[str, Any] = {
    "a value": {"slots": "many"},
    "an ordinary pool": {"slots": 1},
}


@pytest.mark.parametrize("what", WRONG_LAST)
def test_nothing_is_applied_if_one_entry_is_wrong(world: World, file: Path, what: str) -> None:
    world.group("a", 2)
    world.pool("z", 1)
    before = everything(world)
    found = refused(file, {"a": {"slots": 9}, "new": {"slots": 1}, "z": WRONG_LAST[what]})

    assert [line.partition(":")[0] for line in found] == ["'z'"]
    assert everything(world) == before


def test_nothing_is_applied_if_a_step_fails_in_the_midst(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the connection breaks between the second group and the third."""
    world.group("a", 2)
    before = everything(world)
    make = groups.make_group

    def fail_at_c(session: Any, name: str, *rest: Any) -> None:
        if name == "c":
            raise RuntimeError("the connection is gone")
        make(session, name, *rest)

    monkeypatch.setattr(groups, "make_group", fail_at_c)
    with pytest.raises(RuntimeError):
        take(file, {"a": {"slots": 9}, "b": {"slots": 1}, "c": {"slots": 1}})

    assert everything(world) == before


@ONE
def test_all_that_is_in_the_way_is_said_at_once(world: World, file: Path) -> None:
    world.group("wh", 1)
    world.pool("taken.running", 1)
    world.pool("plain", 1)
    world.set_group("wh", mode="dissolving")
    found = refused(
        file,
        {
            "wh": {"slots": 1},
            "wh.running": {"slots": 1},
            "taken": {"slots": 1},
            "plain": {"slots": 1},
            "team": {"slots": 1, "team_name": "blue"},
        },
    )
    assert found == [
        "'wh.running': it is the running pool of 'wh', which is in the file as well; leave it out"
    ]
    found = refused(
        file,
        {
            "wh": {"slots": 1},
            "taken": {"slots": 1},
            "plain": {"slots": 1},
            "team": {"slots": 1, "team_name": "blue"},
        },
    )
    assert found == [
        "'plain': it is an ordinary pool; adopt it as well ('--adopt', 'adopt' in the API), or leave it out",
        "'taken': a pool 'taken.running' exists already, and the group needs that name for its running pool;"
        " rename or delete that pool in Admin → Pools (if it is a slot group itself, with"
        " 'airflow slotgroups delete taken.running'), then try again",
        "'team': team_name can not be 'blue'; leave it out, or set [core] multi_team to True",
        "'wh': slot group 'wh' is being dissolved; wait until its last tasks have gone home",
    ]


def test_a_group_of_a_team(world: World, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    entries = {"wh": {"slots": 1, "team_name": "blue"}}
    [problem] = refused(file, entries)
    assert "make the team with 'airflow teams create blue'" in problem

    with world.database.session() as session:
        session.add(Team(name="blue"))
    take(file, entries)
    world.round()
    with world.database.session() as session:
        teams = session.execute(sa.text("SELECT pool, team_name FROM slot_pool WHERE pool LIKE 'wh%'"))
        assert {row.pool: row.team_name for row in teams} == {"wh": "blue", "wh.running": "blue"}
    assert exported(file)["wh"]["team_name"] == "blue"


def test_each_step_is_in_the_audit_log_with_the_file(world: World, file: Path) -> None:
    world.group("a", 1)
    world.pool("p", 1)
    content = {"a": {"slots": 2}, "b": {"slots": 1, "mode": "paused"}, "p": {"slots": 1}}
    take(file, content, take_pools=True, comment="release 7")

    with world.database.session() as session:
        logged = session.execute(sa.select(Log.event, Log.owner, Log.extra).order_by(Log.id)).all()
    by_import = [(event, who, json.loads(extra)) for event, who, extra in logged if "imported" in extra]
    assert [(event, extra["group"]) for event, _, extra in by_import] == [
        ("slotgroups.set", "a"),
        ("slotgroups.set", "b"),
        ("slotgroups.pause", "b"),
        ("slotgroups.adopt", "p"),
        ("slotgroups.set", "p"),
    ]
    assert {who for _, who, _ in by_import} == {WHO}
    assert by_import[0][2]["comment"] == f"imported from {file}: release 7"


@ONE
def test_files_that_can_not_be_read_or_written(world: World, tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere" / "g.json")
    with pytest.raises(UnreadableFileError, match="can not be read: No such file"):
        import_file(missing, who=WHO)
    with pytest.raises(UnreadableFileError, match="can not be written: No such file"):
        export_file(missing)
    (tmp_path / "latin.json").write_bytes(b'{"m\xfcnchen": {"slots": 1}}')
    with pytest.raises(UnreadableFileError, match="it is no UTF-8"):
        import_file(str(tmp_path / "latin.json"), who=WHO)

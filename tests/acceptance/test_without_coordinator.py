"""When something of ours is missing, or another: S60, S61, S62, S67, and the orphan reset of S77."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

import pytest

from devtools.processes import ManagedProcess

from .world import World, names, only

pytestmark = pytest.mark.acceptance


def test_s60_no_coordinator_alive(external: World) -> None:
    """S60: without a coordinator `check` says so loudly, waiters wait (S41) and go in order when one is back.

    A pool opened by hand meanwhile is named as well (S72).
    """
    world = external
    world.set_group("s60", 1)
    world.set_group("s60_edited", 1)
    world.run("s60")
    world.wait(lambda: set(world.states("s60").values()) == {"scheduled"}, "three scheduled tasks")
    world.set_pool("s60_edited", 2)
    said = world.command("slotgroups", "check")
    assert said.code == 1, said
    assert "no coordinator is alive" in " ".join(said.out.split()), said.out
    problems = {row["code"]: row for row in world.check()}
    assert problems["coordinator"]["remedy"] == "run 'airflow slotgroups coordinator'", problems
    assert "'s60_edited' was opened by hand to 2 slots" in problems["pool_open"]["text"], problems
    world.wait(lambda: seconds_scheduled(world) > 4, "a wait longer than execution_timeout")
    assert set(world.states("s60").values()) == {"scheduled"}, f"not all wait: {world.states('s60')}"
    with coordinator(world):
        world.finish("s60")
        assert names(world.grants("s60")) == ["p3", "p2", "p1"]
        world.assert_never_over("s60", 1)
        world.assert_idle("s60")
        assert world.group("s60_edited")["slots"] == 2
        assert "All is well" in world.cli("slotgroups", "check")
    assert "coordinator" in {row["code"] for row in world.check()}, "a coordinator that left is not missed"
    assert "Tasks of s60 name it still" in world.cli("slotgroups", "delete", "s60")
    assert not world.rows("SELECT pool FROM slot_pool WHERE pool IN ('s60', 's60.running')"), (
        "a pool was left"
    )


def seconds_scheduled(world: World) -> float:
    """How long the youngest of the tasks of S60 has been scheduled, by the database's clock."""
    clock = "strftime('%s', 'now') - strftime('%s', scheduled_dttm)"
    if world.airflow.engine().dialect.name == "postgresql":
        clock = "extract(epoch FROM now() - scheduled_dttm)"
    rows = world.rows(f"SELECT min({clock}) AS seconds FROM task_instance WHERE dag_id = 's60'")
    return float(only(rows)["seconds"])


@contextmanager
def coordinator(world: World) -> Iterator[ManagedProcess]:
    """A coordinator that runs alone, by the real command."""
    airflow = world.airflow
    command = [airflow.python, "-m", "airflow", "slotgroups", "coordinator"]
    process = ManagedProcess("coordinator", command, airflow.home / "logs-proc" / "coordinator.log")
    process.start(airflow.env, airflow.home)
    try:
        world.wait(lambda: world.coordinators(), "the coordinator to report")
        yield process
        process.signal(signal.SIGTERM)
        assert process.wait(10), f"the coordinator did not end\n{process.tail()}"
        assert process.returncode == 0, f"the coordinator ended with {process.returncode}\n{process.tail()}"
        assert not world.rows("SELECT * FROM slot_coordinator"), "the coordinator's row was left behind"
    finally:
        process.kill_group()


def test_s61_tables_missing(unmigrated: World) -> None:
    """S61: started without `airflow db migrate`: one clear line, nothing crashes, and it serves once migrated."""
    world = unmigrated
    log = world.airflow.home / "logs-proc" / "scheduler-0.log"
    said = world.wait(
        lambda: [line for line in log.read_text().splitlines() if "not served" in line], "a clear line"
    )
    assert "airflow db migrate" in said[0], f"the line names no remedy: {said[0]!r}"
    assert "Traceback" not in log.read_text(), "a traceback where one line was wanted"
    world.run("s61_plain")
    world.finish("s61_plain")
    listed = world.airflow.cli("slotgroups", "list", check=False)
    assert listed.returncode == 1, f"list ended with {listed.returncode}"
    assert "airflow db migrate" in listed.stderr, f"list says {listed.stderr!r}"
    assert "Traceback" not in listed.stderr, f"list says {listed.stderr!r}"
    assert only(world.check())["code"] == "tables"
    world.airflow.migrate()
    world.set_group("s61", 1)
    world.run("s61")
    world.finish("s61")
    world.assert_idle("s61")
    assert not world.check(), f"after migrating: {world.check()}"


def test_s77_orphan_reset_of_a_queued_task(external: World) -> None:
    """S77: a queued task loses its scheduler and is reset by the next one: no leak, it queues and runs once.

    The API server stands still meanwhile, which keeps the task from leaving the state queued.
    """
    world = external
    name = "s77_orphan"
    world.set_group(name, 0)
    world.run(name)
    with coordinator(world):
        world.wait_group(name, waiting=1)
        api_server = world.airflow.pids()["api-server"]
        os.kill(api_server, signal.SIGSTOP)
        try:
            world.set_group(name, 1)
            world.wait(lambda: world.states(name)["nap"] == "queued", "the task to be queued")
            world.airflow.schedulers[0].kill_group()
        finally:
            os.kill(api_server, signal.SIGCONT)
        assert world.group(name)["used"] == 1, (
            "the slot was freed before anybody knew what became of the task"
        )
        world.airflow.restart_scheduler(0)
        world.finish(name)
        world.assert_idle(name)
        world.assert_never_over(name, 1)
    only(world.tasks(name), state="success")


def test_s62_no_triggerer(external: World) -> None:
    """S62: sections and tasks are served where no triggerer runs."""
    world = external
    world.set_group("s62", 1)
    with coordinator(world):
        world.run("s62_section", "s62")
        world.finish("s62_section", "s62")
        world.assert_idle("s62")
        world.assert_never_over("s62", 1)
    kinds = {row["kind"] for row in world.requests("s62") if row["granted_at"]}
    assert kinds == {"section", "task"}


def test_s67_an_upgrade_with_everything_in_flight(external: World) -> None:
    """S67: twenty waiters, three holders and a section outlive the package that let them in."""
    world = external
    world.set_group("s67", 4)
    with coordinator(world):
        world.run("s67_holders", "s67_section")
        world.wait(lambda: "running" in world.states("s67_section").values(), "the section's task")
        world.wait_group("s67", used=4, waiting=0)
        world.run("s67_waiters")
        world.wait_group("s67", used=4, waiting=20)
    world.airflow.schedulers[0].kill_group()
    install_newer(world, "0.1.999")
    world.airflow.migrate()
    world.airflow.restart_scheduler(0)
    with coordinator(world):
        assert only(world.rows("SELECT version FROM slot_coordinator"))["version"] == "0.1.999"
        assert world.group("s67")["used"] == 4
        assert len(world.waiters("s67")) >= 20
        world.open("s67")
        world.finish("s67_holders", "s67_section", "s67_waiters")
        world.assert_idle("s67")
    world.assert_never_over("s67", 4)


def install_newer(world: World, version: str) -> None:
    """Put the package as another version in front of the one that is installed."""
    installed = distribution("airflow-slotgroups")
    where = world.airflow.home / "newer"
    package = where / "airflow_slotgroups"
    found = find_spec("airflow_slotgroups")
    assert found is not None
    assert found.origin is not None
    shutil.copytree(Path(found.origin).parent, package, ignore=shutil.ignore_patterns("node_modules"))
    init = package / "__init__.py"
    init.write_text(init.read_text().replace(f'"{installed.version}"', f'"{version}"'))
    info = where / f"airflow_slotgroups-{version}.dist-info"
    info.mkdir()
    metadata = str(installed.read_text("METADATA"))
    (info / "METADATA").write_text(metadata.replace(f"Version: {installed.version}", f"Version: {version}"))
    (info / "entry_points.txt").write_text(str(installed.read_text("entry_points.txt")))
    world.airflow.env["PYTHONPATH"] = str(where)

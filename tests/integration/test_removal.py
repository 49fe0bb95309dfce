"""The SQL of docs/removal.md, as it stands there, on each database: scenario S74, and what is not silent (S73)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from airflow.models.trigger import Trigger

from airflow_slotgroups.db_manager import SlotGroupsDBManager
from airflow_slotgroups.domain.errors import PoolNameTakenError
from airflow_slotgroups.domain.names import SLOT_TRIGGER_PATH, UNLIMITED_POOL
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.services import groups, health, requests
from airflow_slotgroups.services.groups import GroupChange
from tests.integration.support.databases import Database
from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import WHO, Key, World

DOCUMENT = Path(__file__).parents[2] / "docs" / "removal.md"
OURS = ("slot_group", "slot_group_change", "slot_request", "slot_coordinator", "alembic_version_slotgroups")


def statements(backend: str) -> list[str]:
    """The statements of the document, with what it says of each database."""
    [block] = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    text = re.sub(r"--.*", "", block)
    if backend == "mariadb":
        text = text.replace("FROM trigger ", "FROM `trigger` ")
    if backend == "sqlite":
        text = re.sub(r"CONCAT\((\S+), ('\S+')\)", r"\1 || \2", text)
    return [statement.strip() for statement in text.split(";") if statement.strip()]


@pytest.fixture
def whole_again(database: Database) -> Iterator[None]:
    """Our tables are back when the test is over."""
    yield
    with database.engine.begin() as connection:
        for table in OURS:
            connection.execute(sa.text(f"DROP TABLE IF EXISTS {table}"))
    with database.session() as session:
        SlotGroupsDBManager(session).upgradedb(use_migration_files=True)


def remove_by_hand(world: World) -> None:
    """What somebody does who has no package any more."""
    with world.database.engine.begin() as connection:
        for statement in statements(world.database.backend):
            connection.execute(sa.text(statement))


def waiting_acquire(world: World, task_id: str, pool: str) -> Key:
    """An acquire that waits on its trigger."""
    with world.database.session() as session:
        trigger = Trigger(classpath=SLOT_TRIGGER_PATH, kwargs={})
        session.add(trigger)
        session.flush()
        number = trigger.id
    return world.task(
        task_id, pool, state="deferred", trigger_id=number, start_date=world.clock.now, priority_weight=-9
    )


@pytest.mark.usefixtures("whole_again")
def test_the_plain_pools_come_back_without_the_package(world: World) -> None:
    world.dag("dag")
    world.run("dag", "run")
    world.pool("wh", 2, include_deferred=True, description="a warehouse")
    world.pool("other", 7)
    groups.adopt("wh", GroupChange(), who=WHO)
    world.group("made here", 1)
    world.clock.advance(5)
    scheduler = FakeScheduler(world.database, world.clock)
    running = world.task("running", "wh")
    world.round()
    scheduler.run_to(running)
    granted, forced, waiting = (world.task(name, "wh") for name in ("granted", "forced", "waiting"))
    acquire = waiting_acquire(world, "acquire", "wh")
    world.round()
    requests.force_start("wh", [Which(task_id="forced")], who=WHO)
    world.round()
    assert [world.pool_of(key) for key in (running, granted, forced, waiting)] == [
        "wh.running",
        "wh.running",
        UNLIMITED_POOL,
        "wh",
    ]

    remove_by_hand(world)

    assert {world.pool_of(key) for key in (running, granted, forced, waiting, acquire)} == {"wh"}
    assert (world.ti(acquire).state, world.ti(acquire).trigger_id) == ("success", None)
    with world.database.session() as session:
        pools = session.execute(sa.text("SELECT pool, slots, include_deferred FROM slot_pool"))
        assert {row.pool: (row.slots, bool(row.include_deferred)) for row in pools} == {
            "default_pool": (128, False),
            "made here": (1, False),
            "other": (7, False),
            "wh": (2, True),
        }
        assert not {*OURS} & {*sa.inspect(session.connection()).get_table_names()}
    scheduler.do("end", running, "success")
    assert scheduler.critical_section() == 2
    states = [world.ti(key).state for key in (granted, forced, waiting)]
    assert sorted(states) == ["queued", "queued", "scheduled"]


@pytest.mark.usefixtures("whole_again")
def test_it_does_no_harm_where_nothing_was_adopted(world: World) -> None:
    world.pool("other", 7)
    remove_by_hand(world)

    assert world.pools("other") == (7, None)


# S73


def test_a_running_pool_that_was_deleted_is_made_again_and_said(world: World) -> None:
    world.dag("dag")
    world.run("dag", "run")
    world.group("P", 2)
    world.task("waits", "P")
    world.drop_pool("P.running")

    assert "pool_missing" in [problem.code for problem in health.check()]
    world.rounds(2)
    assert world.pools("P") == (0, 2)
    assert world.granted() == ["waits"]
    assert "was missing" in (groups.get_group("P").notice or "")


def test_a_running_pool_that_is_there_already_is_refused_and_nothing_changes(world: World) -> None:
    world.pool("P", 3)
    world.pool("P.running", 1)
    world.pool("Q.running", 1)
    for call in (lambda: groups.adopt("P", GroupChange(), who=WHO), lambda: world.group("Q", 1)):
        with pytest.raises(PoolNameTakenError) as caught:
            call()
        assert "rename or delete that pool" in caught.value.remedy

    assert world.pools("P") == (3, 1)
    assert world.pools("Q") == (None, 1)
    assert groups.list_groups() == []

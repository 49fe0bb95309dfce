"""What people do to waiters and groups: force, priorities, suspend, pause, bypass; and what races with a grant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from airflow.models.log import Log
from airflow.models.team import Team, dag_bundle_team_association_table

from airflow_slotgroups.airflow_core import locks
from airflow_slotgroups.airflow_core.pools import read_pools
from airflow_slotgroups.coordinator.cycle import Cycle
from airflow_slotgroups.domain.errors import (
    BusyError,
    InvalidValueError,
    NothingFoundError,
    OrdinaryPoolError,
    RequestStateError,
)
from airflow_slotgroups.domain.names import UNLIMITED_POOL
from airflow_slotgroups.domain.reasons import Code
from airflow_slotgroups.domain.states import Mode
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.services import groups, health, requests
from airflow_slotgroups.services.groups import get_group, set_mode
from airflow_slotgroups.services.queue import queue_of
from tests.integration.conftest import backends
from tests.integration.support.databases import Database
from tests.integration.support.faults import watched
from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import BUNDLE, WHO, Key, World


@pytest.fixture
def world(world: World) -> World:
    world.dag("dag", max_active_tasks=100)
    world.run("dag", "run")
    return world


@pytest.fixture
def scheduler(world: World) -> FakeScheduler:
    return FakeScheduler(world.database, world.clock)


def which(*task_ids: str) -> list[Which]:
    return [Which(task_id=task_id) for task_id in task_ids]


def force(*task_ids: str, pool: str = "P") -> list[Any]:
    return list(requests.force_start(pool, which(*task_ids), who=WHO))


def busy_group(world: World, scheduler: FakeScheduler, slots: int = 1, waiters: int = 5) -> list[Key]:
    """A full group: `h0`.. run, `w0`.. wait, in this order."""
    world.group("P", slots)
    holders = [world.task(f"h{number}", "P") for number in range(slots)]
    world.round()
    for key in holders:
        scheduler.run_to(key)
    for number in range(waiters):
        world.task(f"w{number}", "P")
    world.round()
    return holders


def end(world: World, scheduler: FakeScheduler, key: Key) -> None:
    """A holder ends, and a cycle sees it."""
    scheduler.do("end", key, "success")
    world.round()


def events(world: World) -> list[tuple[str, dict[str, Any]]]:
    """Our entries in the audit log."""
    with world.database.session() as session:
        rows = session.execute(
            sa.select(Log.event, Log.extra).where(Log.event.like("slotgroups.%")).order_by(Log.id)
        ).all()
    return [(event.removeprefix("slotgroups."), json.loads(extra)) for event, extra in rows]


# Force start


def test_a_waiter_is_started_by_force(world: World, scheduler: FakeScheduler) -> None:
    """S43: at once, over the capacity, shown as such; paid back before the next grant."""
    [holder] = busy_group(world, scheduler)
    [entry] = force("w4")
    assert entry.reason_code == Code.NEXT_IN.value
    world.round()

    assert world.granted() == ["h0", "w4"]
    status = get_group("P")
    assert (status.used, status.overdraft, status.free) == (2, 1, 0)
    assert world.pool_of(Key("dag", "run", "w4")) == UNLIMITED_POOL
    assert world.pools("P") == (0, 0)
    assert "started by force" in queue_of("P")[1].reason
    assert scheduler.critical_section() == 1

    end(world, scheduler, holder)
    assert get_group("P").overdraft == 0
    assert world.granted() == ["w4"]
    scheduler.do("start", Key("dag", "run", "w4"))
    end(world, scheduler, Key("dag", "run", "w4"))
    assert world.granted() == ["w0"]
    assert world.pools("P") == (0, 1)
    [logged] = [logged for event, logged in events(world) if event == "force-start"]
    assert (logged["old"]["forced"], logged["new"]["forced"]) == (False, True)


def test_a_forced_task_that_ends_first_gives_nothing_away(world: World, scheduler: FakeScheduler) -> None:
    """S45: use is 1 of 1 afterwards, not 0 of 1."""
    busy_group(world, scheduler)
    force("w4")
    world.round()
    scheduler.run_to(Key("dag", "run", "w4"))
    end(world, scheduler, Key("dag", "run", "w4"))

    assert (get_group("P").used, get_group("P").overdraft) == (1, 0)
    assert world.granted() == ["h0"]
    assert world.pools("P") == (0, 1)


def test_who_does_not_wait_is_not_forced(world: World, scheduler: FakeScheduler) -> None:
    """S44: refused with the state, nothing changes; twice is once."""
    [holder] = busy_group(world, scheduler)
    with pytest.raises(RequestStateError, match="holds its slots already"):
        force("h0")
    [request] = world.requests(holder)
    end(world, scheduler, holder)
    with pytest.raises(RequestStateError, match="has ended"):
        requests.force_start("P", [Which(request_id=request.id)], who=WHO)
    with pytest.raises(NothingFoundError):
        force("h0")
    with pytest.raises(NothingFoundError):
        force("nobody")

    force("w3")
    force("w3")
    world.round()
    assert (get_group("P").used, world.granted()) == (2, ["w0", "w3"])
    with pytest.raises(RequestStateError, match="holds its slots already"):
        force("w3")


def test_a_forced_start_lifts_a_suspension(world: World, scheduler: FakeScheduler) -> None:
    """The later word of a person counts."""
    busy_group(world, scheduler)
    requests.suspend("P", [Which(task_id="w3")], who=WHO)
    force("w3")
    world.round()

    assert world.granted() == ["h0", "w3"]


def test_an_old_waiter_that_is_forced_is_not_overdue_at_once(
    world: World, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The minute after which `check` warns begins with the order, not with the arrival."""
    busy_group(world, scheduler)
    monkeypatch.setattr("airflow_slotgroups.services.health.utcnow", lambda: world.clock.now)
    monkeypatch.setattr("airflow_slotgroups.services.requests.utcnow", lambda: world.clock.now)
    world.clock.advance(3600)
    force("w3")

    assert "stalled" not in {problem.code for problem in health.check()}
    world.clock.advance(3600)
    assert "stalled" in {problem.code for problem in health.check()}


def test_a_refused_action_changes_nothing_of_the_others(world: World, scheduler: FakeScheduler) -> None:
    """Several in one go: all or none."""
    busy_group(world, scheduler)
    with pytest.raises(RequestStateError):
        force("w1", "h0")
    world.round()

    assert world.granted() == ["h0"]
    assert not [one for one in events(world) if one[0] == "force-start"]


HELD = {
    "a paused DAG": (lambda world, scheduler: scheduler.do("pause", "dag", True), Code.DAG_PAUSED),
    "a run that is queued": (
        lambda world, scheduler: scheduler.do("set_run", "dag", "run", "queued"),
        Code.RUN_NOT_RUNNING,
    ),
}


@pytest.mark.parametrize("what", HELD)
def test_the_answer_names_what_still_holds_a_forced_waiter(
    world: World, scheduler: FakeScheduler, what: str
) -> None:
    hold, code = HELD[what]
    busy_group(world, scheduler)
    hold(world, scheduler)

    [entry] = force("w0")
    assert entry.reason_code == code.value
    world.round()
    assert world.granted() == ["h0"]


def test_force_passes_a_pause_of_the_group_and_a_request_that_is_too_wide(
    world: World, scheduler: FakeScheduler
) -> None:
    busy_group(world, scheduler)
    world.task("wide", "P", pool_slots=7)
    set_mode("P", Mode.PAUSED, who=WHO)
    world.round()
    force("wide", "w2")
    world.round()

    assert sorted(world.granted()) == ["h0", "w2", "wide"]
    assert (get_group("P").used, get_group("P").overdraft) == (9, 8)
    assert scheduler.critical_section() == 2


def test_a_forced_task_that_is_retried_queues_again_without_force(
    world: World, scheduler: FakeScheduler
) -> None:
    busy_group(world, scheduler)
    key = Key("dag", "run", "w2")
    force("w2")
    world.round()
    scheduler.run_to(key)
    scheduler.do("retry", key)
    world.round()
    assert world.pool_of(key) == "P"
    scheduler.do("due", key)
    world.round()

    assert world.state_of(key) == ["released", "waiting"]
    assert world.waiting() == ["w0", "w1", "w3", "w4", "w2"]


# Order


def test_a_higher_priority_is_next(world: World, scheduler: FakeScheduler) -> None:
    """S11: the next free slot is its, still so for another coordinator; audited with old and new value."""
    [holder] = busy_group(world, scheduler, waiters=9)
    requests.prioritize("P", which("w8"), 50, who=WHO, comment="month end")
    world.cycle = Cycle(world.database.session, world.clock)
    end(world, scheduler, holder)

    assert world.granted() == ["w8"]
    [entry] = [entry for event, entry in events(world) if event == "prioritize"]
    assert (entry["old"]["priority"], entry["new"]["priority"]) == (1, 50)
    assert entry["comment"] == "month end"


@pytest.mark.parametrize("ageing_seconds", [0, 600])
def test_to_the_top_in_their_present_order(
    world: World, scheduler: FakeScheduler, ageing_seconds: int
) -> None:
    world.group("P", 0, ageing_seconds=ageing_seconds)
    for task_id, priority in (("low", 1), ("mid", 5), ("high", 9), ("first", 20)):
        world.task(task_id, "P", priority_weight=priority)
        world.clock.advance(1)
    world.round()
    assert world.waiting() == ["first", "high", "mid", "low"]
    requests.prioritize("P", which("low", "high"), None, who=WHO)

    assert world.waiting() == ["high", "low", "first", "mid"]
    requests.prioritize("P", which("mid"), None, who=WHO)
    assert world.waiting() == ["mid", "high", "low", "first"]
    requests.prioritize("P", [Which()], None, who=WHO)
    assert world.waiting() == ["mid", "high", "low", "first"]


def test_a_priority_beyond_32_bits_is_refused(world: World, scheduler: FakeScheduler) -> None:
    busy_group(world, scheduler)
    with pytest.raises(InvalidValueError, match="32 bits"):
        requests.prioritize("P", which("w0"), 2**31, who=WHO)


def test_who_is_suspended_keeps_its_place(world: World, scheduler: FakeScheduler) -> None:
    [holder] = busy_group(world, scheduler)
    [entry] = requests.suspend("P", which("w0"), who=WHO)
    assert (entry.position, entry.reason_code) == (1, Code.SUSPENDED.value)
    end(world, scheduler, holder)
    assert world.granted() == ["w1"]

    requests.unsuspend("P", which("w0"), who=WHO)
    scheduler.run_to(Key("dag", "run", "w1"))
    end(world, scheduler, Key("dag", "run", "w1"))
    assert world.granted() == ["w0"]


def test_ageing_brings_a_backfill_through_a_stream_of_others(world: World, scheduler: FakeScheduler) -> None:
    """S10: 25 runs keep coming at a higher priority; the backfill goes within the bound of its ageing."""
    world.group("P", 1, ageing_seconds=60)
    world.task("backfill", "P", priority_weight=1)
    waited = 0.0
    for number in range(100):
        world.task(f"busy{number}", "P", priority_weight=11)
        world.round()
        [holder] = world.granted()
        if holder == "backfill":
            break
        scheduler.run_to(Key("dag", "run", holder), "success")
        world.clock.advance(30)
        waited += 30
    assert holder == "backfill"
    assert 600 <= waited <= 660


# Modes


def test_pause_and_resume(world: World, scheduler: FakeScheduler) -> None:
    """S46: holders finish, nobody is let in, the order is kept."""
    holders = busy_group(world, scheduler, slots=2)
    set_mode("P", Mode.PAUSED, who=WHO)
    for key in holders:
        end(world, scheduler, key)
    assert (world.granted(), len(world.waiting())) == ([], 5)

    status = set_mode("P", Mode.ACTIVE, who=WHO)
    assert (status.mode, status.slots) == (Mode.ACTIVE, 2)
    world.round()
    assert world.granted() == ["w0", "w1"]
    assert [event for event, _ in events(world)] == ["set", "pause", "resume"]


def test_bypass_and_back(world: World, scheduler: FakeScheduler) -> None:
    """S47: all go, new ones are not held; back again, those that run count."""
    busy_group(world, scheduler)
    set_mode("P", Mode.BYPASS, who=WHO)
    world.rounds(2)
    assert world.waiting() == []
    assert scheduler.critical_section() == 5
    world.task("new", "P")
    world.round()
    assert (get_group("P").used, get_group("P").overdraft, world.pools("P")) == (7, 0, (0, -1))

    set_mode("P", Mode.ACTIVE, who=WHO)
    world.task("late", "P")
    world.round()
    # The one that the scheduler had not queued yet waits again: there is no room for it any more.
    assert (get_group("P").used, get_group("P").overdraft) == (6, 5)
    assert world.waiting() == ["new", "late"]
    assert world.pools("P") == (0, 1)


def test_a_mode_that_it_has_already_is_no_change(world: World) -> None:
    world.group("P", 1)
    set_mode("P", Mode.ACTIVE, who=WHO)

    assert [event for event, _ in events(world)] == ["set"]


def test_a_new_description_is_that_of_the_pool_too(world: World) -> None:
    """Admin → Pools shows it, and dissolving leaves it."""
    world.group("P", 1, description="old")
    world.group("P", 2, description="new")
    with world.database.session() as session:
        assert read_pools(session, ["P"])["P"].description == "new"
    world.group("P", 3)
    groups.dissolve("P", who=WHO)

    with world.database.session() as session:
        pool = read_pools(session, ["P"])["P"]
    assert (pool.slots, pool.description) == (3, "new")


def test_an_ordinary_pool_has_no_levers(world: World) -> None:
    world.pool("P", 1)
    for call in (lambda: set_mode("P", Mode.PAUSED, who=WHO), lambda: force("t")):
        with pytest.raises(OrdinaryPoolError):
            call()


def test_the_pool_of_another_team_lets_nobody_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """S79: said as the reason; a team's own DAG goes, and even force does not pass."""
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    world.group("P", 2)
    with world.database.session() as session:
        session.add_all([Team(name="blue"), Team(name="red")])
        session.flush()
        session.execute(
            sa.insert(dag_bundle_team_association_table).values(dag_bundle_name=BUNDLE, team_name="red")
        )
        session.execute(sa.text("UPDATE slot_pool SET team_name = 'blue' WHERE pool = 'P'"))
    world.task("t", "P")
    world.round()

    [entry] = force("t")
    world.round()
    assert (world.granted(), entry.reason_code) == ([], Code.WRONG_TEAM.value)
    assert entry.reason == "the pool belongs to team 'blue', the DAG 'dag' to team 'red'"
    with world.database.session() as session:
        session.execute(sa.update(dag_bundle_team_association_table).values(team_name="blue"))
    world.round()
    assert world.granted() == ["t"]


# Races with a grant, on two connections of PostgreSQL


def soon(connection: Any, _record: object, _proxy: object) -> None:
    """One thread plays both parts: whoever finds a row locked need not wait for it."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '20ms'")


@pytest.fixture
def impatient(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(locks.limit_waiting, "__defaults__", (20,))
    monkeypatch.setattr("airflow_slotgroups.services.transaction.PATIENCE", 0.0)
    monkeypatch.setattr("airflow_slotgroups.services.transaction.PAUSE", 0.0)
    sa.event.listen(database.engine, "checkout", soon)
    yield
    sa.event.remove(database.engine, "checkout", soon)
    database.engine.dispose()


LEVERS: dict[str, Callable[[], object]] = {
    "force": lambda: force("w0"),
    "grow": lambda: groups.set_group("P", groups.GroupChange(slots=2), who=WHO),
    "suspend": lambda: requests.suspend("P", which("w0"), who=WHO),
}

STRIDE = 3
"""Of so many statements one is raced; each lever begins at another, so that together they meet all."""


def first_statement(lever: str) -> int:
    return 1 + list(LEVERS).index(lever) % STRIDE


def pull(lever: str) -> str:
    """Pull a lever; what came of it."""
    try:
        LEVERS[lever]()
    except BusyError:
        return "busy"
    except RequestStateError:
        return "too late"
    return "done"


def set_up_race(world: World, scheduler: FakeScheduler, number: int) -> None:
    """One slot is free in the next cycle, and two wait for it."""
    world.database.clean(keep=("dag", "dag_bundle"))
    world.run("dag", "run")
    [holder] = busy_group(world, scheduler, waiters=2)
    scheduler.do("end", holder, "success")
    world.clock.advance(number)


def settle(world: World) -> None:
    """What holds however the race went."""
    world.rounds(2)
    status = get_group("P")
    live = world.granted() + world.waiting()
    assert sorted(live) == ["w0", "w1"], live
    assert status.used == len(world.granted())
    forced = [request for request in world.requests() if request.forced and request.state == "granted"]
    if not forced and status.slots:
        assert status.overdraft == 0, world.granted()


@pytest.mark.parametrize("database", backends("postgresql"), indirect=True)
@pytest.mark.parametrize("lever", LEVERS)
@pytest.mark.usefixtures("impatient")
def test_a_lever_in_the_midst_of_a_cycle(world: World, lever: str) -> None:
    """In front of a statement of the cycle: it is done, or refused at once; the cycle never waits."""
    scheduler = FakeScheduler(world.database, world.clock)
    outcomes: set[str] = set()
    at, happened = first_statement(lever), True
    while happened:
        set_up_race(world, scheduler, at)
        with watched(world.database.engine, at, lambda _: outcomes.add(pull(lever))) as statements:
            assert not world.cycle.run().errors
        happened = statements.happened
        settle(world)
        at += STRIDE
    assert at > 20
    assert {"busy", "done"} <= outcomes


@pytest.mark.parametrize("database", backends("postgresql"), indirect=True)
@pytest.mark.parametrize("lever", LEVERS)
@pytest.mark.usefixtures("impatient")
def test_a_cycle_in_the_midst_of_a_lever(world: World, lever: str) -> None:
    """In front of a statement of the lever: the cycle leaves that group out, or goes first."""
    scheduler = FakeScheduler(world.database, world.clock)
    other = Cycle(world.database.session, world.clock)
    errors: dict[str, str] = {}
    at, happened = first_statement(lever), True
    while happened:
        set_up_race(world, scheduler, at)
        with watched(world.database.engine, at, lambda _: errors.update(other.run().errors)) as statements:
            assert pull(lever) in ("done", "too late")
        assert not errors
        happened = statements.happened
        settle(world)
        at += STRIDE
    assert at > 5

"""Faults that a review found by trying to break a promise; each test says what should be."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from airflow.models.dag import DagModel
from airflow.models.dag_version import DagVersion
from airflow.models.trigger import Trigger
from airflow.sdk import DAG

from airflow_slotgroups import AcquireSlotsOperator, ReleaseSlotsOperator
from airflow_slotgroups.coordinator.cycle import CycleResult
from airflow_slotgroups.coordinator.steps import STEPS
from airflow_slotgroups.domain.names import SLOT_TRIGGER_PATH
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.models import SlotRequest
from airflow_slotgroups.services import groups, health, requests
from airflow_slotgroups.services.explain import explain_task
from airflow_slotgroups.services.queue import queue_of
from airflow_slotgroups.services.transfer import Done, import_content
from tests.integration.conftest import backends
from tests.integration.support.dags import START, Work, pin_runs, write_dags
from tests.integration.support.faults import watched
from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import WHO, Key, World

POSTGRES = pytest.mark.parametrize("database", backends("postgresql"), indirect=True)
SQLITE = pytest.mark.parametrize("database", backends("sqlite"), indirect=True)
BOTH = pytest.mark.parametrize("database", backends("sqlite", "postgresql"), indirect=True)


@pytest.fixture
def w(world: World) -> World:
    world.dag("dag", max_active_tasks=100_000)
    world.run("dag", "run")
    return world


@pytest.fixture
def scheduler(w: World) -> FakeScheduler:
    return FakeScheduler(w.database, w.clock)


def locate_dags(w: World) -> Any:
    """Airflow ends no task by an event whose DAG has no file or no version; returns the latest version."""
    with w.database.session() as session:
        session.execute(sa.update(DagModel.__table__).values(relative_fileloc="dag.py", fileloc="/dag.py"))
        newest = sa.select(DagVersion.id).order_by(DagVersion.version_number.desc()).limit(1)
        if (number := session.scalar(newest)) is None:
            version = DagVersion(dag_id="dag", version_number=1, bundle_name="testing")
            session.add(version)
            session.flush()
            number = version.id
        return number


def new_trigger(w: World) -> int:
    with w.database.session() as session:
        trigger = Trigger(classpath=SLOT_TRIGGER_PATH, kwargs={})
        session.add(trigger)
        session.flush()
        return int(trigger.id)


def acquire(w: World, task_id: str, pool: str, run_id: str = "run", **values: Any) -> Key:
    """An acquire that the scheduler has deferred."""
    version = locate_dags(w)
    return w.task(
        task_id,
        pool,
        dag_version_id=version,
        run_id=run_id,
        state="deferred",
        trigger_id=new_trigger(w),
        next_method="execute_complete",
        start_date=w.clock.now,
        operator="AcquireSlotsOperator",
        **values,
    )


def defer_again(w: World, key: Key, **values: Any) -> None:
    """What the scheduler does with an acquire that was cleared."""
    version = locate_dags(w)
    number = w.ti(key).try_number + 1
    w.set_ti(
        key,
        state="deferred",
        try_number=number,
        dag_version_id=version,
        trigger_id=new_trigger(w),
        next_method="execute_complete",
        start_date=w.clock.now,
        **values,
    )


def holds(w: World) -> list[tuple[str, str, int]]:
    with w.database.session() as session:
        query = sa.select(SlotRequest).where(SlotRequest.state == "granted", SlotRequest.kind == "section")
        return [(r.task_id, r.pool, r.slots) for r in session.scalars(query)]


def section_dag(acquire_id: str, inside: str, release_id: str, pool: str = "P", slots: int = 1) -> DAG:
    with DAG("dag", schedule=None, start_date=START) as dag:
        first = AcquireSlotsOperator(task_id=acquire_id, pool=pool, slots=slots)
        last = ReleaseSlotsOperator(task_id=release_id)
        last.as_teardown(setups=first)
        first >> Work(task_id=inside) >> last
    for task in dag.tasks:
        if hasattr(task, "prepare_template"):
            task.prepare_template()
    return dag


# --- dag.test() beside a group


@BOTH
def test_a_test_run_takes_no_slot_of_the_running_pool(w: World, scheduler: FakeScheduler) -> None:
    """S49: nothing of dag.test() is counted; here its task takes a slot off P.running all the same."""
    w.group("P", 1)
    w.run("dag", "tested", test=True)
    w.task("by_test", "P", run_id="tested", state="running")
    real = w.task("real", "P")
    w.rounds(2)
    assert w.granted() == ["real"]
    assert groups.get_group("P").used == 1
    assert w.pools("P") == (0, 1)
    scheduler.critical_section()
    assert w.ti(real).state == "queued"


# --- import


@BOTH
def test_an_import_of_the_same_size_overrules_an_edit_before_it(w: World) -> None:
    w.group("P", 4)
    with w.database.session() as session:
        session.execute(sa.text("UPDATE slot_pool SET slots = 50 WHERE pool = 'P'"))
    done = import_content("f", '{"P": {"slots": 4}}', who=WHO)
    w.rounds(2)
    assert (done["P"], groups.get_group("P").slots) == (Done.CHANGED, 4)


@SQLITE
def test_many_groups_stop_nobody(w: World) -> None:
    """SQLite takes 500 terms of a compound SELECT at most."""
    content = json.dumps({f"g{number:04}": {"slots": 1} for number in range(501)})
    import_content("f", content, who=WHO)
    w.task("t", "g0001")
    w.clock.advance(5)
    w.rounds(2)
    assert w.granted() == ["t"]


class Teams:
    """An auth manager whose user belongs to team A alone."""

    def is_authorized_pool(self, *, method: str, details: Any, user: Any) -> bool:
        return details is None or details.team_name in (None, "A")


@BOTH
def test_an_import_puts_no_pool_into_a_team_that_is_not_ours(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's own API asks for the team in the body too (`requires_access_pool`)."""
    from airflow.models.team import Team
    from fastapi import HTTPException

    from airflow_slotgroups.api.routes.transfer import import_groups
    from airflow_slotgroups.api.schemas import ImportIn

    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    with w.database.session() as session:
        session.add(Team(name="A"))
        session.add(Team(name="B"))
    monkeypatch.setattr("airflow_slotgroups.api.auth.get_auth_manager", Teams)
    user = SimpleNamespace(get_name=lambda: "of_a")
    w.group("mine", 1)
    with pytest.raises(HTTPException) as refused:
        import_groups(ImportIn(groups={"mine": {"slots": 1, "team_name": "B"}}), user)
    assert refused.value.status_code == 403


@pytest.mark.parametrize("name", ["a\x00b", "a\ud800b", "x" * 5000])
@BOTH
def test_an_odd_name_is_refused_by_the_import_of_the_api(
    w: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from pydantic import ValidationError

    from airflow_slotgroups.api.routes.transfer import import_groups
    from airflow_slotgroups.api.schemas import ImportIn
    from airflow_slotgroups.domain.errors import SlotGroupsError

    monkeypatch.setattr("airflow_slotgroups.api.auth.get_auth_manager", Teams)
    user = SimpleNamespace(get_name=lambda: "of_a")
    with pytest.raises((SlotGroupsError, ValidationError)) as caught:
        import_groups(ImportIn(groups={name: {"slots": 1}}), user)
    if isinstance(caught.value, ValidationError):
        return


# --- limits


@SQLITE
def test_limits_of_many_dags_stop_no_sweep(w: World) -> None:
    w.group("P", 1)
    with w.database.session() as session:
        base = dict(session.execute(sa.select(DagModel.__table__)).mappings().one())
        base["has_task_concurrency_limits"] = True
        ids = [f"d{n:04}" for n in range(1200)]
        session.execute(sa.insert(DagModel.__table__), [{**base, "dag_id": dag_id} for dag_id in ids])
        from airflow.models.dagrun import DagRun

        run = dict(session.execute(sa.select(DagRun.__table__)).mappings().one())
        del run["id"]
        session.execute(sa.insert(DagRun.__table__), [{**run, "dag_id": dag_id} for dag_id in ids])
    keys = [Key(dag_id, "run", "t") for dag_id in ids]
    w.tasks(keys, "P")
    w.rounds(3)
    assert len(w.requests()) == 1200


# --- sections


@BOTH
def test_a_section_is_granted_and_ends(w: World) -> None:
    """That the helpers of this file do what they should."""
    write_dags(w.database, [section_dag("acquire", "inside", "release")])
    pin_runs(w.database)
    w.group("P", 1)
    key = acquire(w, "acquire", "P")
    w.task("inside", "default_pool", state=None)
    release = w.task("release", "default_pool", state=None, operator="ReleaseSlotsOperator")
    w.rounds(2)
    assert (w.ti(key).state, holds(w)) == ("success", [("acquire", "P", 1)])
    assert w.requests(key)[0].release_task_id == "release"
    w.set_ti(release, state="success")
    w.rounds(2)
    assert holds(w) == []


@BOTH
def test_a_cleared_acquire_whose_pool_was_edited_holds_the_new_one(w: World) -> None:
    w.group("P", 1)
    w.group("Q", 1)
    key = acquire(w, "acquire", "P")
    w.task("inside", "default_pool", state=None)
    w.rounds(2)
    assert holds(w) == [("acquire", "P", 1)]
    w.task("holder", "Q", state="scheduled")
    w.round()
    w.set_ti(Key("dag", "run", "holder"), state="running")
    w.round()
    defer_again(w, key, pool="Q")
    w.rounds(3)
    # Q is full: nobody may pass, and P is free again.
    assert (w.ti(key).state, holds(w)) == ("deferred", [])


@BOTH
def test_a_cleared_acquire_whose_pool_is_ordinary_now_keeps_no_slots(w: World) -> None:
    w.group("P", 1)
    w.pool("ordinary", 5)
    key = acquire(w, "acquire", "P")
    w.task("inside", "default_pool", state=None)
    w.rounds(2)
    defer_again(w, key, pool="ordinary")
    w.rounds(3)
    assert holds(w) == []


@BOTH
def test_a_cleared_acquire_that_asks_for_more_holds_more(w: World) -> None:
    w.group("P", 4)
    key = acquire(w, "acquire", "P")
    w.task("inside", "default_pool", state=None)
    w.rounds(2)
    w.tasks([Key("dag", "run", f"t{n}") for n in range(3)], "P")
    w.rounds(2)
    assert groups.get_group("P").used == 4
    defer_again(w, key, pool_slots=3)
    w.rounds(3)
    assert ("acquire", "P", 1) not in holds(w)


@BOTH
def test_an_acquire_that_can_not_go_on_keeps_its_hold_says_why_and_tries_again(
    w: World, scheduler: FakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    w.group("P", 1)
    w.task("inside", "inner", state="running")
    key = acquire(w, "acquire", "P")
    w.round()
    defer_again(w, key)
    scheduler.do("find_file", "dag", False)
    w.rounds(3)
    assert (w.ti(key).state, holds(w)) == ("deferred", [("acquire", "P", 1)])
    assert caplog.text.count("could not be ended") == 1, "not tried again in every cycle"
    [entry] = queue_of("P")
    assert entry.notice is not None
    assert entry.notice.startswith("it has its slots, and could not be let in: ")
    scheduler.do("find_file", "dag", True)
    w.clock.advance(31)
    w.round()
    assert (w.ti(key).state, holds(w)) == ("success", [("acquire", "P", 1)])
    assert [entry.notice for entry in queue_of("P")] == [None]


@BOTH
def test_a_release_that_was_renamed_in_the_midst_ends_the_section(w: World) -> None:
    """An unversioned bundle: a run goes on with the edited DAG."""
    write_dags(w.database, [section_dag("acquire", "inside", "release")])
    w.group("P", 1)
    acquire(w, "acquire", "P")
    inside = w.task("inside", "default_pool", state=None)
    old = w.task("release", "default_pool", state=None, operator="ReleaseSlotsOperator")
    w.rounds(2)
    assert holds(w) == [("acquire", "P", 1)]
    write_dags(w.database, [section_dag("acquire", "inside", "free")])
    w.set_ti(old, state="removed")
    w.set_ti(inside, state="success")
    w.task("free", "default_pool", state="success", operator="ReleaseSlotsOperator")
    later = w.task("later", "P")
    w.rounds(3)
    assert holds(w) == []
    assert w.state_of(later) == ["granted"]


@BOTH
def test_a_section_whose_acquire_was_renamed_holds_while_its_tasks_run(w: World) -> None:
    """Airflow 3.3.2 sets the old acquire to removed though it had succeeded; `inside` keeps its id and runs on."""
    write_dags(w.database, [section_dag("acquire", "inside", "release")])
    w.run("dag", "run2")
    w.group("P", 1)
    key = acquire(w, "acquire", "P")
    w.task("inside", "default_pool", state="running")
    w.task("release", "default_pool", state=None, operator="ReleaseSlotsOperator")
    w.rounds(2)
    write_dags(w.database, [section_dag("get", "inside", "release")])
    w.set_ti(key, state="removed")
    other = acquire(w, "get", "P", run_id="run2")
    w.task("inside", "default_pool", run_id="run2", state=None)
    w.rounds(3)
    assert (w.ti(other).state, len(holds(w))) == ("deferred", 1)


@BOTH
def test_going_on_reads_the_release_anew(w: World) -> None:
    """The release was added, and an inner task cleared: the new try ends with it."""
    with DAG("dag", schedule=None, start_date=START) as bare:
        AcquireSlotsOperator(task_id="acquire", pool="P") >> Work(task_id="inside")
    write_dags(w.database, [bare])
    w.group("P", 1)
    key = acquire(w, "acquire", "P")
    inside = w.task("inside", "default_pool", state=None)
    w.rounds(2)
    write_dags(w.database, [section_dag("acquire", "inside", "release")])
    release = w.task("release", "default_pool", state=None, operator="ReleaseSlotsOperator")
    defer_again(w, key)
    w.rounds(2)
    assert w.ti(key).state == "success"
    w.set_ti(inside, state="success")
    w.set_ti(release, state="success")
    w.task("long", "default_pool", state="running")
    w.rounds(2)
    assert holds(w) == []


@POSTGRES
def test_dissolving_leaves_no_locked_acquire_behind(w: World) -> None:
    w.group("P", 1)
    key = acquire(w, "acquire", "P", pool_slots=2)
    w.rounds(2)
    with w.database.engine.connect() as other:
        other.execute(sa.text("SELECT 1 FROM task_instance WHERE task_id = 'acquire' FOR UPDATE"))
        groups.dissolve("P", who=WHO, end_sections=True)
        other.rollback()
    w.rounds(5)
    assert w.ti(key).state == "success"


@BOTH
def test_dissolving_leaves_no_acquire_behind_that_nobody_has_seen(w: World) -> None:
    from airflow_slotgroups.domain.errors import GroupInUseError

    w.group("P", 1)
    key = acquire(w, "acquire", "P")
    with pytest.raises(GroupInUseError):
        groups.dissolve("P", who=WHO)
    groups.dissolve("P", who=WHO, end_sections=True)
    w.rounds(5)
    assert w.ti(key).state == "success"


def parse(dag: DAG) -> DAG:
    for task in list(dag.tasks):
        if hasattr(task, "prepare_template"):
            task.prepare_template()
    return dag


def test_two_acquires_of_one_group_with_one_release_are_refused() -> None:
    """Each holds until the release, which waits for both: with one slot they wait for themselves."""
    from airflow_slotgroups.domain.errors import SectionError

    with DAG("dag", schedule=None, start_date=START) as dag:
        release = ReleaseSlotsOperator(task_id="release")
        for name in ("a", "b"):
            AcquireSlotsOperator(task_id=name, pool="P") >> Work(task_id=f"use_{name}") >> release
    with pytest.raises(SectionError):
        parse(dag)


def test_a_task_of_the_group_that_the_section_waits_for_is_refused() -> None:
    """Not behind the acquire, but before the release: the section holds what it waits for."""
    from airflow_slotgroups import HoldSlots
    from airflow_slotgroups.domain.errors import SectionError

    with DAG("dag", schedule=None, start_date=START) as dag:
        beside = Work(task_id="beside", pool="P")
        with HoldSlots("s", pool="P"):
            first, last = Work(task_id="first"), Work(task_id="last")
            first >> last
        beside >> last
    with pytest.raises(SectionError):
        parse(dag)


@BOTH
def test_a_group_in_whose_pool_tasks_wait_unseen_is_not_deleted(w: World) -> None:
    """No coordinator was alive, so nobody has enqueued them."""
    from airflow_slotgroups.domain.errors import GroupInUseError

    w.group("P", 1)
    w.task("t", "P")
    with pytest.raises(GroupInUseError):
        groups.delete("P", who=WHO)


@POSTGRES
def test_two_coordinators_around_an_import(w: World) -> None:
    """At each statement of an import another coordinator cycles: nobody dies, nobody is over."""
    w.group("A", 2)
    w.group("B", 2)
    w.tasks([Key("dag", "run", f"a{n}") for n in range(6)], "A")
    w.tasks([Key("dag", "run", f"b{n}") for n in range(6)], "B")
    sizes = [1, 3, 2]
    at = 1
    while True:
        size = sizes[at % 3]
        content = json.dumps({"A": {"slots": size}, "B": {"slots": size, "mode": "active"}})
        with watched(w.database.engine, at, lambda _c: w.cycle.run()) as seen:
            import_content("f", content, who=WHO)
        w.rounds(1)
        for name in "AB":
            status = groups.get_group(name)
            assert status.slots == size
            assert status.used <= max(size, 3)
            assert w.pools(name) == (0, size)
        if not seen.happened:
            break
        at += 4
    assert at > 20


# --- cycles that do the urgent steps alone

EACH_WAY = pytest.mark.parametrize("thorough", [True, False])


def cycle(w: World, *, thorough: bool) -> CycleResult:
    """One cycle, a moment later."""
    w.clock.advance()
    return w.cycle.run(thorough=thorough)


def runs_in_the_only_slot(w: World, scheduler: FakeScheduler) -> Key:
    """A task that has the only slot, and that goes before most others when it comes again."""
    w.group("P", 1)
    task = w.task("t", "P", priority_weight=5)
    w.round()
    scheduler.run_to(task)
    return task


@EACH_WAY
@POSTGRES
def test_a_section_is_let_in_only_when_the_running_pool_shrinks_with_it(
    w: World, scheduler: FakeScheduler, thorough: bool
) -> None:
    """A quick retry in the running pool took the slot that a section had just got (S50, S76)."""
    task = runs_in_the_only_slot(w, scheduler)
    w.task("inside", "inner", state=None, try_number=0)
    acquire(w, "acquire", "P", priority_weight=9)
    w.round()
    scheduler.do("retry", task)
    w.clock.advance()
    with w.database.engine.connect() as other:
        other.execute(sa.text("SELECT 1 FROM slot_pool FOR UPDATE"))
        w.cycle.run(thorough=thorough)
        other.rollback()
    assert (holds(w), w.pool_of(task)) == ([], "P")
    scheduler.do("due", task)
    for _ in range(3):
        cycle(w, thorough=thorough)
        scheduler.critical_section()
    assert (holds(w), w.ti(task).state, w.pools("P")) == ([("acquire", "P", 1)], "scheduled", (0, 0))


@EACH_WAY
@BOTH
def test_a_retry_does_not_take_the_slot_that_was_granted_when_it_failed(
    w: World, scheduler: FakeScheduler, thorough: bool
) -> None:
    task = runs_in_the_only_slot(w, scheduler)
    w.task("u", "P")
    w.round()
    scheduler.do("retry", task)
    cycle(w, thorough=thorough)
    scheduler.do("due", task)
    scheduler.critical_section()
    assert (w.granted(), w.ti(task).state, w.pool_of(task)) == (["u"], "scheduled", "P")


@EACH_WAY
@BOTH
def test_a_retry_that_was_too_quick_keeps_its_slot_while_it_is_deferred(
    w: World, scheduler: FakeScheduler, thorough: bool
) -> None:
    """S34: it was sent home when it came back from its trigger, and another one had its slot by then."""
    task = runs_in_the_only_slot(w, scheduler)
    waiter = w.task("u", "P", priority_weight=9)
    w.round()
    for step in ("retry", "due"):
        scheduler.do(step, task)
    scheduler.critical_section()
    for step in ("start", "defer", "resume"):
        cycle(w, thorough=thorough)
        scheduler.do(step, task)
    cycle(w, thorough=thorough)
    assert (w.pool_of(task), w.state_of(waiter)) == ("P.running", ["waiting"])


@EACH_WAY
@BOTH
def test_a_pool_that_was_shrunk_by_hand_lets_nobody_in_by_its_old_size(
    w: World, scheduler: FakeScheduler, thorough: bool
) -> None:
    """S72."""
    w.group("P", 2)
    tasks = [w.task(task_id, "P") for task_id in "abc"]
    w.round()
    for task in tasks[:2]:
        scheduler.run_to(task)
    w.pool("P", 1)
    scheduler.do("end", tasks[0], "success")
    cycle(w, thorough=thorough)
    assert w.state_of(tasks[2]) == ["waiting"]


@POSTGRES
def test_a_retry_that_runs_by_now_keeps_a_section_out(w: World, scheduler: FakeScheduler) -> None:
    """Use was read before it was queued, and the running pool shrank after it."""
    w.group("P", 1)
    w.task("inside", "inner", state=None, try_number=0)
    acquire(w, "acquire", "P")
    with watched(
        w.database.engine,
        "UPDATE slot_request SET state",
        lambda _c: w.task("retry", "P.running", state="running"),
    ) as seen:
        w.round()
    assert seen.happened
    assert holds(w) == []
    w.round()
    assert (holds(w), groups.get_group("P").used) == ([], 1)


@POSTGRES
def test_pools_that_could_not_be_written_are_written_by_the_next_urgent_cycle(
    w: World, scheduler: FakeScheduler
) -> None:
    """A section has ended while the scheduler held the rows: its slots must not wait for a thorough cycle."""
    w.group("P", 1)
    inside = w.task("inside", "inner", state="running")
    acquire(w, "acquire", "P")
    w.run("dag", "other")
    w.task("u", "P", run_id="other")
    w.round()
    assert (holds(w), w.pools("P")) == ([("acquire", "P", 1)], (0, 0))
    scheduler.do("end", inside, "success")
    with w.database.engine.connect() as other:
        other.execute(sa.text("SELECT 1 FROM slot_pool FOR UPDATE"))
        cycle(w, thorough=False)
        other.rollback()
    assert (holds(w), w.granted(), w.pools("P")) == ([], ["u"], (0, 0))
    cycle(w, thorough=False)
    assert w.pools("P") == (0, 1)


@POSTGRES
def test_a_forced_task_takes_its_slot_off_the_running_pool_soon(w: World, scheduler: FakeScheduler) -> None:
    """Also when the scheduler held the rows at the moment of the grant."""
    runs_in_the_only_slot(w, scheduler)
    w.task("u", "P")
    w.round()
    requests.force_start("P", [Which(task_id="u")], who=WHO)
    w.clock.advance()
    with w.database.engine.connect() as other:
        other.execute(sa.text("SELECT 1 FROM slot_pool FOR UPDATE"))
        w.cycle.run()
        other.rollback()
    assert (w.granted(), w.pools("P")) == (["t", "u"], (0, 1))
    cycle(w, thorough=False)
    assert w.pools("P") == (0, 0)


@BOTH
def test_a_slot_that_a_listener_gave_back_is_granted_by_the_next_urgent_cycle(
    w: World, scheduler: FakeScheduler
) -> None:
    task = runs_in_the_only_slot(w, scheduler)
    w.task("u", "P")
    w.round()
    scheduler.do("end", task, "success")
    with w.database.session() as session:
        ended = {"state": "released", "live": None, "ended_at": w.clock.now, "end_reason": "ended"}
        session.execute(sa.update(SlotRequest).where(SlotRequest.state == "granted").values(**ended))
    assert cycle(w, thorough=False).granted == 1


@BOTH
def test_a_cycle_is_busy_after_a_thorough_one_has_let_somebody_in(w: World, scheduler: FakeScheduler) -> None:
    """Nobody held when it looked, and the next look came half a second later."""
    w.group("P", 1)
    for task_id in "tu":
        w.task(task_id, "P")
    w.round()
    assert cycle(w, thorough=False).busy


@BOTH
def test_what_is_none_of_ours_is_not_put_right_again_and_again(w: World, scheduler: FakeScheduler) -> None:
    """A test run executes in the pool: a glance sees it, and no step has anything to do about it."""
    w.group("P", 1)
    w.run("dag", "tested", test=True)
    w.task("by_test", "P", run_id="tested", state="running")
    w.round()
    locked = []
    for _ in range(3):
        with watched(w.database.engine) as seen:
            cycle(w, thorough=False)
        locked.append(any("SAVEPOINT" in sent for sent in seen.seen))
    assert locked == [True, False, False]
    w.task("t", "P")
    assert cycle(w, thorough=False).granted == 1


# --- acquires that could not go on


def put_off(w: World, scheduler: FakeScheduler, slots: int = 1) -> Key:
    """A new try of an acquire that has its hold and could not be ended."""
    w.group("P", slots)
    w.task("inside", "inner", state="running")
    key = acquire(w, "acquire", "P")
    w.round()
    defer_again(w, key)
    scheduler.do("find_file", "dag", False)
    w.rounds(3)
    return key


@BOTH
def test_explain_says_why_an_acquire_can_not_go_on(w: World, scheduler: FakeScheduler) -> None:
    put_off(w, scheduler)
    sentence = explain_task("dag", "acquire", "run").sentence
    assert sentence.startswith("waits in slot group 'P': it has its slots, and could not be let in: "), (
        sentence
    )


@BOTH
def test_an_acquire_that_waits_no_longer_leaves_no_word_of_it(w: World, scheduler: FakeScheduler) -> None:
    key = put_off(w, scheduler)
    w.set_ti(key, state="success", trigger_id=None, next_method=None)
    w.rounds(2)
    assert holds(w) == [("acquire", "P", 1)]
    assert [entry.notice for entry in queue_of("P")] == [None]


@BOTH
def test_an_acquire_that_asks_for_more_now_is_not_put_off_with_its_old_hold(
    w: World, scheduler: FakeScheduler
) -> None:
    key = put_off(w, scheduler, slots=2)
    scheduler.do("find_file", "dag", True)
    defer_again(w, key, pool_slots=2)
    w.rounds(2)
    assert (w.ti(key).state, holds(w)) == ("success", [("acquire", "P", 2)])


# --- what check says of a queue that did not move


@POSTGRES
@pytest.mark.parametrize("then", ["marked", "paused"])
def test_a_queue_that_did_not_move_once_is_not_stalled_for_ever(
    w: World, scheduler: FakeScheduler, then: str
) -> None:
    w.group("P", 1)
    task = w.task("t", "P")
    w.cycle.put_right(["P"], STEPS)
    with w.database.engine.connect() as other:
        other.execute(sa.text("SELECT 1 FROM task_instance WHERE task_id = 't' FOR UPDATE"))
        w.round()
        w.clock.advance(120)
        w.round()
        [stalled] = [problem for problem in health.check() if problem.where == "P"]
        assert stalled.text == "requests can be let in since 2026-03-01 12:00:00 UTC and are not"
        other.rollback()
    if then == "marked":
        scheduler.do("mark", task, "failed")
    else:
        scheduler.do("pause", "dag", True)
    w.rounds(3)
    w.clock.advance(120)
    w.rounds(3)
    assert [problem.code for problem in health.check() if problem.where == "P"] == []

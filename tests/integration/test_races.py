"""Races on two real connections. Each is shown to go wrong with its lock removed.

The second connection acts in front of a chosen statement of the first, so that every run meets the same
moment; where one side must really wait for the other, the database tells when it does.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from airflow.models.taskinstance import TaskInstance
from airflow.utils.sqlalchemy import with_row_locks
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import is_locked
from airflow_slotgroups.coordinator.cycle import Cycle
from airflow_slotgroups.coordinator.steps import STEPS
from airflow_slotgroups.domain.errors import BusyError
from airflow_slotgroups.domain.states import RequestState
from airflow_slotgroups.services import groups
from airflow_slotgroups.services.groups import GroupChange
from tests.integration.conftest import backends
from tests.integration.support.dags import make_dag, pin_runs, write_dags
from tests.integration.support.faults import watched
from tests.integration.support.rules import Facts, at_any_moment, look, when_settled
from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import WHO, Key, World

pytestmark = pytest.mark.parametrize("database", backends("postgresql"), indirect=True)

LOCKED = pytest.mark.parametrize("locked", [True, False], ids=["locked", "lock removed"])
"""Each race is run as it is, and once more with the lock that decides it taken away."""


def unlocked(query: Any, _session: Session) -> Any:
    """In place of a locking function: read, and lock nothing."""
    return query


@pytest.fixture
def scheduler(world: World) -> FakeScheduler:
    """A DAG that Airflow can clear, and a run of it."""
    write_dags(world.database, [make_dag("dag", {name: {"pool": "P"} for name in ("t1", "t2", "t3")})])
    world.run("dag", "run")
    pin_runs(world.database)
    return FakeScheduler(world.database, world.clock)


@contextlib.contextmanager
def rival(world: World) -> Iterator[Session]:
    """A session that gives up at once when it would have to wait."""
    with world.database.session() as session:
        session.execute(sa.text("SET LOCAL lock_timeout = '50ms'"))
        yield session


def facts(world: World) -> Facts:
    """What stands in the tables."""
    return look(world.database, world.clock.now)


def has_to_wait(world: World, move: Callable[[Session], object]) -> bool:
    """Try a move on another connection; tell whether it found its rows locked."""
    try:
        with rival(world) as session:
            move(session)
    except OperationalError as error:
        if is_locked(error):
            return True
        raise
    return False


# --- Two coordinators on one group.


@LOCKED
def test_two_coordinators_on_one_group(
    world: World, scheduler: FakeScheduler, locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has decided and not written yet, a better waiter comes, and the other one decides as well."""
    if not locked:
        monkeypatch.setattr("airflow_slotgroups.store.groups.skip_locked", unlocked)
    world.group("P", 1)
    world.task("t1", "P")
    world.cycle.put_right(["P"], STEPS)
    other = Cycle(world.database.session, world.clock)

    def meanwhile(_connection: object) -> None:
        world.task("t2", "P", priority_weight=9)
        other.run()

    with watched(world.database.engine, "UPDATE task_instance SET pool", meanwhile) as seen:
        world.cycle.run()
    assert seen.happened
    use = facts(world).use("P")
    assert use == (1 if locked else 2)
    assert list(at_any_moment(facts(world))) == []


@LOCKED
def test_two_coordinators_enqueue_the_same_arrival(
    world: World, scheduler: FakeScheduler, locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the lock the database's constraint stops the second one; never two live requests."""
    if not locked:
        monkeypatch.setattr("airflow_slotgroups.store.groups.skip_locked", unlocked)
    world.group("P", 1)
    key = world.task("t1", "P")
    other = Cycle(world.database.session, world.clock)
    clashes: list[object] = []

    def note(context: object) -> None:
        clashes.append(context)

    sa.event.listen(world.database.engine, "handle_error", note)
    try:
        with watched(world.database.engine, "INSERT INTO slot_request", lambda _c: other.run()):
            errors = world.cycle.run().errors
    finally:
        sa.event.remove(world.database.engine, "handle_error", note)
    assert (bool(clashes), errors) == (not locked, {})
    assert len(world.requests(key)) == 1


# --- A grant against what others do to the waiter.


OTHERS: dict[str, Callable[[FakeScheduler, Session, Key], None]] = {
    "clear": lambda scheduler, session, key: scheduler.clear(session, key),
    "mark failed": lambda scheduler, session, key: scheduler.mark(session, key, "failed"),
}


@LOCKED
@pytest.mark.parametrize("what", OTHERS)
def test_it_happens_to_the_waiter_between_the_look_and_the_write(
    world: World, scheduler: FakeScheduler, what: str, locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the lock it comes after the grant; without it a slot is given to a try that is no more."""
    if not locked:
        monkeypatch.setattr("airflow_slotgroups.airflow_core.task_instances.skip_locked", unlocked)
    world.group("P", 1)
    key = world.task("t1", "P")
    world.cycle.put_right(["P"], STEPS)
    waited: list[bool] = []

    def meanwhile(_connection: object) -> None:
        waited.append(has_to_wait(world, lambda session: OTHERS[what](scheduler, session, key)))

    with watched(world.database.engine, "UPDATE task_instance SET pool", meanwhile):
        world.cycle.run()
    assert waited == [locked]
    assert world.state_of(key) == ["granted"]
    ti = world.ti(key)
    assert (ti.state, ti.pool) == (("scheduled", "P.running") if locked else (ti.state, "P"))
    assert (ti.state == "scheduled") is locked

    # Whichever came first, it is put right.
    if locked:
        assert not has_to_wait(world, lambda session: OTHERS[what](scheduler, session, key))
    world.round()
    assert world.state_of(key) == ["released"]
    assert list(when_settled(facts(world))) == []


@LOCKED
@pytest.mark.parametrize("what", OTHERS)
def test_it_happens_to_a_waiter_and_is_not_committed_yet(
    world: World, scheduler: FakeScheduler, what: str, locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that somebody holds is left out, and the next one goes; without SKIP LOCKED nobody goes."""
    if not locked:
        monkeypatch.setattr("airflow_slotgroups.airflow_core.task_instances.skip_locked", unlocked)
        monkeypatch.setattr("airflow_slotgroups.airflow_core.locks.limit_waiting.__defaults__", (50,))
    world.group("P", 2)
    # Clearing may touch every task instance of its run.
    world.run("dag", "other")
    held, free = world.task("t1", "P", priority_weight=9), world.task("t2", "P", run_id="other")
    world.cycle.put_right(["P"], STEPS)
    with rival(world) as session:
        OTHERS[what](scheduler, session, held)
        session.flush()
        world.cycle.run()
        assert world.granted() == ([free.task_id] if locked else [])
    world.round()
    assert world.granted() == [free.task_id]
    assert list(when_settled(facts(world))) == []


# --- Adopting against the scheduler.


@LOCKED
def test_adopting_waits_for_the_critical_section(
    world: World, scheduler: FakeScheduler, locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the scheduler has queued and not committed is adopted too; the tasks first, it is left behind."""
    world.pool("P", 2)
    tasks = [world.task(name, "P") for name in ("t1", "t2", "t3")]
    critical = contextlib.ExitStack()
    session = critical.enter_context(world.database.session())
    assert scheduler.queue_in(session) == 2
    if not locked:
        read_the_tasks_before_the_pools_are_closed(monkeypatch, critical.close)
    monkeypatch.setattr("airflow_slotgroups.airflow_core.locks.limit_waiting.__defaults__", (50,))
    monkeypatch.setattr("airflow_slotgroups.services.transaction.PATIENCE", 0.0)

    if locked:
        with pytest.raises(BusyError):
            groups.adopt("P", GroupChange(), who=WHO)
        assert world.pools("P") == (2, None), "nothing was changed"
        critical.close()
    groups.adopt("P", GroupChange(), who=WHO)
    left_behind = [ti.task_id for ti in facts(world).strangers("P")]
    assert left_behind == ([] if locked else ["t1", "t2"])
    assert {world.pool_of(key) for key in tasks[:2]} == ({"P.running"} if locked else {"P"})
    world.round()
    assert facts(world).use("P") == 2
    assert list(when_settled(facts(world))) == []


def read_the_tasks_before_the_pools_are_closed(
    monkeypatch: pytest.MonkeyPatch, commit_the_scheduler: Callable[[], None]
) -> None:
    """Take away what makes adopting wait: the lock, and the order of pools before tasks."""
    from airflow_slotgroups.store import adoption

    monkeypatch.setattr("airflow_slotgroups.airflow_core.pools.wait_for_lock", unlocked)
    put, read = adoption.put_pool, adoption.adopt_tasks
    late: list[Callable[[], None]] = []

    def put_later(session: Session, row: Any, *, exists: bool) -> None:
        if not late_is_over:
            late.append(lambda: put(session, row, exists=exists))
        else:
            put(session, row, exists=exists)

    late_is_over: list[bool] = []

    def read_first(*arguments: Any) -> None:
        read(*arguments)
        commit_the_scheduler()
        late_is_over.append(True)
        for action in late:
            action()

    monkeypatch.setattr(adoption, "put_pool", put_later)
    monkeypatch.setattr(adoption, "adopt_tasks", read_first)


@LOCKED
def test_a_pool_edited_while_it_is_adopted(
    world: World, scheduler: FakeScheduler, locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit waits, and then is a resize; without the lock it is lost."""
    if not locked:
        monkeypatch.setattr("airflow_slotgroups.airflow_core.pools.wait_for_lock", unlocked)
    world.pool("P", 2)
    edit = sa.text("UPDATE slot_pool SET slots = 6 WHERE pool = 'P'")
    waited: list[bool] = []
    with watched(
        world.database.engine,
        "UPDATE slot_pool",
        lambda _c: waited.append(has_to_wait(world, lambda session: session.execute(edit))),
    ):
        groups.adopt("P", GroupChange(), who=WHO)
    assert waited == [locked]
    if locked:
        with world.database.session() as session:
            session.execute(edit)
    world.round()
    assert groups.get_group("P").slots == (6 if locked else 2)


def test_the_scheduler_goes_on_when_it_finds_the_pools_locked(world: World, scheduler: FakeScheduler) -> None:
    """It takes the rows NOWAIT; what adopting holds costs it one loop."""
    world.pool("P", 2)
    world.task("t1", "P")
    queued: list[int] = []
    with watched(
        world.database.engine,
        "FROM task_instance",
        lambda _c: queued.append(scheduler.critical_section()),
    ):
        groups.adopt("P", GroupChange(), who=WHO)
    assert queued == [0]
    world.round()
    assert scheduler.critical_section() == 1


# --- The coordinator's locks and Airflow's bulk updates (S78).


class Background:
    """Work in another thread, that the test waits for by events of the database."""

    def __init__(self, world: World, work: Callable[[], object]) -> None:
        self.world = world
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self.run, args=(work,), daemon=True)

    def run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            self.error = error

    def start(self) -> None:
        self.thread.start()

    def wait_until_it_waits(self) -> None:
        """Until the database says that somebody waits for a lock."""
        query = sa.text(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        pause = threading.Event()
        for _ in range(2000):
            with self.world.database.session() as session:
                if session.scalar(query):
                    return
            pause.wait(0.005)
        raise AssertionError("nobody ever waited for a lock")

    def join(self) -> None:
        self.thread.join(30)
        assert not self.thread.is_alive()


def blocking(query: Any, session: Session) -> Any:
    """In place of SKIP LOCKED: wait for whoever has the rows, from the first to the second."""
    return with_row_locks(query.order_by(TaskInstance.task_id), session=session)


@LOCKED
def test_a_bulk_update_of_airflow_is_never_the_victim_of_a_deadlock(
    world: World, scheduler: FakeScheduler, locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow has updated the second waiter and goes on to the first, while a cycle lets both in."""
    world.group("P", 2)
    first, second = world.task("t1", "P"), world.task("t2", "P")
    world.cycle.put_right(["P"], STEPS)
    if not locked:
        monkeypatch.setattr("airflow_slotgroups.airflow_core.task_instances.skip_locked", blocking)
        # Whose patience ends first decides on the victim; ours gives way to nobody now.
        monkeypatch.setattr("airflow_slotgroups.coordinator.cycle.limit_waiting", patient)
    cycle = Background(world, world.cycle.run)
    with world.database.session() as session:
        session.execute(sa.text("SET LOCAL deadlock_timeout = '100ms'"))
        touch(session, second)
        cycle.start()
        if locked:
            cycle.join()
            touch(session, first)
        else:
            cycle.wait_until_it_waits()
            with pytest.raises(OperationalError, match="deadlock detected"):
                touch(session, first)
            session.rollback()
    cycle.join()
    assert cycle.error is None
    assert world.granted() == (["t1"] if locked else ["t1", "t2"])
    world.round()
    assert list(when_settled(facts(world))) == []


def patient(session: Session, *_: object) -> None:
    """In place of `limit_waiting`: wait for ever, and look for deadlocks late."""
    session.execute(sa.text("SET LOCAL deadlock_timeout = '20s'"))


def touch(session: Session, key: Key) -> None:
    """A harmless update of one task instance, as Airflow's bulk updates make them row by row."""
    session.execute(
        sa.text("UPDATE task_instance SET queue = 'q' WHERE task_id = :task"), {"task": key.task_id}
    )


def test_bulk_updates_and_cycles_side_by_side(world: World, scheduler: FakeScheduler) -> None:
    """S78 in short: Airflow touches all rows in changing orders, and never sees a deadlock or a time-out."""
    world.group("P", 10)
    keys = [Key("dag", "run", f"n{number}") for number in range(60)]
    world.tasks(keys, "P")
    rounds = 25
    turn = threading.Barrier(2)

    def airflow() -> None:
        for number in range(rounds):
            turn.wait(30)
            with world.database.session() as session:
                session.execute(sa.text("SET LOCAL deadlock_timeout = '10ms'"))
                for key in sorted(keys, reverse=number % 2 == 0)[:: 1 + number % 3]:
                    touch(session, key)
                if number % 4 == 3:
                    scheduler.mark(session, keys[number], "failed")

    others = Background(world, airflow)
    others.start()
    for _ in range(rounds):
        turn.wait(30)
        world.round()
        assert list(at_any_moment(facts(world))) == []
    others.join()
    assert others.error is None
    world.rounds(2)
    assert list(when_settled(facts(world))) == []
    assert len(world.granted()) == 10


def test_a_locked_row_of_ours_keeps_no_coordinator_waiting(world: World, scheduler: FakeScheduler) -> None:
    """Somebody changes the group and is slow: this cycle leaves it out, the other groups are served."""
    world.group("P", 1)
    world.group("Q", 1)
    world.task("t1", "P")
    world.task("t2", "Q")
    with rival(world) as session:
        session.execute(sa.text("UPDATE slot_group SET comment = 'slow' WHERE pool = 'P'"))
        world.round()
        assert world.granted() == ["t2"]
    world.round()
    assert sorted(world.granted()) == ["t1", "t2"]


def test_a_locked_pool_keeps_no_coordinator_waiting(world: World, scheduler: FakeScheduler) -> None:
    """The scheduler is in its critical section for a while: grants go on, sizes are written later."""
    world.group("P", 1)
    world.group("P", 2)
    world.round()
    for number, size in zip(itertools.count(1), (3, 4), strict=False):
        with rival(world) as session:
            scheduler.queue_in(session)
            world.set_group("P", slots=size)
            world.task(f"t{number}", "P")
            world.round()
            assert len(world.requests(None, RequestState.GRANTED)) == number
            assert world.pools("P")[1] == size - 1
        world.round()
        assert world.pools("P") == (0, size)

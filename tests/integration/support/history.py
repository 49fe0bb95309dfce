"""Random histories: anything that can happen to a group, in any order, and at any statement (hypothesis)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import sqlalchemy as sa
from airflow.sdk import DAG
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy.exc import DBAPIError

from airflow_slotgroups.airflow_core.locks import is_locked
from airflow_slotgroups.coordinator.cycle import Cycle
from airflow_slotgroups.domain.errors import SlotGroupsError
from airflow_slotgroups.domain.states import Strategy
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.models import SlotRequest
from airflow_slotgroups.services import groups as services
from airflow_slotgroups.services import requests
from airflow_slotgroups.services.groups import GroupChange
from tests.integration.support.clock import FakeClock
from tests.integration.support.dags import make_dag, pin_runs
from tests.integration.support.databases import Database
from tests.integration.support.faults import CoordinatorDied, die, watched
from tests.integration.support.rules import (
    BETWEEN,
    UNLIMITED,
    Facts,
    at_any_moment,
    cycle_kept_the_rules,
    key_of,
    look,
    when_settled,
)
from tests.integration.support.scheduler import FINISHED, FakeScheduler
from tests.integration.support.world import WHO, Key, World

PICKS = st.integers(0, 999)
"""Chooses among what is there at that moment: the remainder by its number."""
STATEMENTS = st.integers(1, 60)
SIZES = (1, 2, 3, 5, 0, -1)

RUNS = {"alpha": ("one", "two"), "beta": ("one",), "gamma": ("one", "two"), "delta": ("one", "two")}
TASKS: dict[str, dict[str, dict[str, Any]]] = {
    "alpha": {
        "low": {"pool": "P", "priority_weight": 1},
        "mid": {"pool": "P", "priority_weight": 2},
        "high": {"pool": "P", "priority_weight": 5},
        "wide": {"pool": "P", "priority_weight": 3, "pool_slots": 2},
    },
    "beta": {
        "first": {"pool": "P", "priority_weight": 4},
        "second": {"pool": "P", "priority_weight": 1},
    },
    "gamma": {
        "single": {"pool": "P", "priority_weight": 3, "max_active_tis_per_dag": 1},
        "per_run": {"pool": "P", "priority_weight": 2, "max_active_tis_per_dagrun": 1},
    },
    "delta": {
        "direct": {"pool": "P.running", "priority_weight": 9},
        "other": {"pool": "Q/q x", "priority_weight": 2},
    },
}
MAPPED = {"single": 3, "per_run": 2}
WAITING = ("scheduled",)


def history_dags() -> list[DAG]:
    """The DAGs whose tasks take part; one may run a single task at a time."""
    return [
        make_dag(dag_id, tasks, max_active_tasks=1 if dag_id == "beta" else 16)
        for dag_id, tasks in TASKS.items()
    ]


def keys() -> Iterable[tuple[Key, dict[str, Any]]]:
    """All task instances with the arguments of their task."""
    for dag_id, tasks in TASKS.items():
        for run_id in RUNS[dag_id]:
            for task_id, values in tasks.items():
                for map_index in range(MAPPED[task_id]) if task_id in MAPPED else (-1,):
                    yield Key(dag_id, run_id, task_id, map_index), values


class Moves:
    """What may happen around the coordinator; each move takes a number to choose its object by."""

    def __init__(self, world: World, scheduler: FakeScheduler) -> None:
        self.world = world
        self.scheduler = scheduler
        self.clock = world.clock
        self.came_again: set[int] = set()
        """Requests whose try was scheduled anew after it ran: the next cycle gives their slots back (S32)."""

    def play(self, name: str, pick: int) -> None:
        """Make a move; one that is refused, or finds its rows locked, does not happen."""
        self.clock.advance()
        try:
            getattr(self, name)(pick)
        except SlotGroupsError as error:
            note(f"  {name} is refused: {error}")
        except DBAPIError as error:
            if not is_locked(error):
                raise
            note(f"  {name} finds rows locked")

    def choose(self, pick: int, *states: str | None, but: tuple[str | None, ...] = ()) -> Key | None:
        """One of the task instances in those states, or in any but those."""
        facts = look(self.world.database, self.clock.now)
        fitting = [
            k for k, ti in facts.tis.items() if (ti.state in states if states else ti.state not in but)
        ]
        return sorted(fitting)[pick % len(fitting)] if fitting else None

    def with_one(self, move: str, pick: int, *states: str | None, **more: Any) -> None:
        """Let the scheduler's `move` happen to one of the task instances in those states."""
        key = self.choose(pick, *states, **more)
        if key is not None:
            note(f"  {move} {key}")
            self.scheduler.do(move, key)

    # --- The scheduler and the workers.

    def due(self, pick: int) -> None:
        self.with_one("due", pick, *BETWEEN)

    def due_many(self, pick: int) -> None:
        for number in range(4):
            self.due(pick + 7 * number)

    def queue(self, _pick: int) -> None:
        note(f"  {self.scheduler.critical_section()} are queued")

    def start(self, pick: int) -> None:
        self.with_one("start", pick, "queued")

    def go(self, pick: int) -> None:
        """Queue what may be queued, and start some of it."""
        self.queue(pick)
        for number in range(3):
            self.start(pick + number)

    def defer(self, pick: int) -> None:
        self.with_one("defer", pick, "running")

    def ask(self, pick: int) -> None:
        self.with_one("ask", pick, "running")

    def resume(self, pick: int) -> None:
        self.with_one("resume", pick, "deferred", "awaiting_input")

    def succeed(self, pick: int) -> None:
        key = self.choose(pick, "running")
        if key is not None:
            note(f"  {key} succeeds")
            self.scheduler.do("end", key, "success")

    def fail(self, pick: int) -> None:
        """It fails, is killed in a restart, or its executor refuses it."""
        key = self.choose(pick, "running", "restarting", "queued")
        if key is not None:
            note(f"  {key} fails")
            self.scheduler.do("end", key, "failed")

    def retry(self, pick: int) -> None:
        self.with_one("retry", pick, "running", "restarting", "queued")

    def retry_at_once(self, pick: int) -> None:
        """So fast that it is queued again before any cycle can see it."""
        key = self.choose(pick, "running")
        if key is not None:
            note(f"  {key} is retried and queued")
            self.scheduler.do("retry", key)
            self.scheduler.do("due", key)
            self.queue(pick)

    def reschedule(self, pick: int) -> None:
        self.with_one("reschedule", pick, "running")

    def reschedule_at_once(self, pick: int) -> None:
        """It comes again before any cycle can see that it was gone."""
        key = self.choose(pick, "running")
        if key is not None:
            note(f"  {key} is rescheduled and due")
            granted = look(self.world.database, self.clock.now).live("granted")
            self.scheduler.do("reschedule", key)
            self.scheduler.do("due", key)
            self.came_again |= {request.id for request in granted if key_of(request) == key}

    def skip(self, pick: int) -> None:
        """By a branch, a trigger rule or fail_fast: nothing tells of it."""
        key = self.choose(pick, None, "scheduled")
        if key is not None:
            note(f"  {key} is skipped")
            self.scheduler.do("mark", key, "skipped")

    def requeue_stuck(self, pick: int) -> None:
        self.with_one("requeue_stuck", pick, "queued")

    def reset_orphan(self, pick: int) -> None:
        self.with_one("reset_orphan", pick, "queued", "scheduled")

    # --- People with Airflow's own means.

    def clear(self, pick: int) -> None:
        self.with_one("clear", pick, but=(None,))

    def mark(self, pick: int) -> None:
        key = self.choose(pick, but=FINISHED)
        if key is not None:
            state = ("failed", "success")[pick % 2]
            note(f"  {key} is marked {state}")
            self.scheduler.do("mark", key, state)

    def delete_ti(self, pick: int) -> None:
        self.with_one("delete_ti", pick, but=())

    def delete_run(self, pick: int) -> None:
        self.of_run("delete_run", pick)

    def fail_run(self, pick: int) -> None:
        self.of_run("fail_run", pick)

    def stop_run(self, pick: int) -> None:
        """A run goes back to queued, or on."""
        self.of_run("set_run", pick, ("queued", "running", "running")[pick % 3])

    def of_run(self, move: str, pick: int, *arguments: str) -> None:
        """Let a move happen to one of the runs."""
        runs = sorted(look(self.world.database, self.clock.now).runs)
        if runs:
            note(f"  {move} {runs[pick % len(runs)]} {arguments}")
            self.scheduler.do(move, *runs[pick % len(runs)], *arguments)

    def pause_dag(self, pick: int) -> None:
        dag_id = sorted(TASKS)[pick % len(TASKS)]
        note(f"  {dag_id} paused: {pick % 2 == 0}")
        self.scheduler.do("pause", dag_id, pick % 2 == 0)

    # --- People with pools and groups.

    def open_pool(self, pick: int) -> None:
        """Set the closed pool by hand; make it again when it was deleted."""
        note(f"  P is set to {SIZES[pick % 6]} by hand")
        self.world.pool("P", SIZES[pick % 6], include_deferred=pick % 5 == 0)

    def edit_running(self, pick: int) -> None:
        note(f"  P.running is set to {SIZES[pick % 6]} by hand")
        with self.world.database.session() as session:
            session.execute(
                sa.text("UPDATE slot_pool SET slots = :slots WHERE pool = 'P.running'"),
                {"slots": SIZES[pick % 6]},
            )

    def drop_pool(self, pick: int) -> None:
        name = ("P", "P.running", UNLIMITED)[pick % 3]
        note(f"  {name} is deleted")
        self.world.drop_pool(name)

    def resize(self, pick: int) -> None:
        note(f"  P gets {SIZES[pick % 6]} slots")
        services.set_group("P", GroupChange(slots=SIZES[pick % 6]), who=WHO)

    def change(self, pick: int) -> None:
        """Another strategy or another ageing."""
        strategy = (Strategy.STRICT, Strategy.BACKFILL)[pick % 2]
        ageing = (0, 1, 600)[pick % 3]
        note(f"  P becomes {strategy} with ageing {ageing}")
        change = GroupChange(slots=2, strategy=strategy, max_passes=2, ageing_seconds=ageing)
        services.set_group("P", change, who=WHO)

    def mode(self, pick: int) -> None:
        mode = ("active", "paused", "bypass", "active")[pick % 4]
        note(f"  P becomes {mode}")
        if (
            group := look(self.world.database, self.clock.now).groups.get("P")
        ) and group.mode != "dissolving":
            self.world.set_group("P", mode=mode)

    def suspend(self, pick: int) -> None:
        """Suspend one waiter, or let all of them go on."""
        waiting = look(self.world.database, self.clock.now).live("waiting")
        chosen = waiting[pick % len(waiting)].id if waiting and pick % 3 else None
        is_it = SlotRequest.id == chosen if chosen else SlotRequest.live.is_(True)
        with self.world.database.session() as session:
            session.execute(sa.update(SlotRequest).where(is_it).values(suspended=chosen is not None))

    def force(self, pick: int) -> None:
        """Start a waiter by force."""
        waiting = look(self.world.database, self.clock.now).live("waiting", "P")
        if waiting:
            chosen = waiting[pick % len(waiting)]
            note(f"  {key_of(chosen)} is forced")
            requests.force_start("P", [Which(request_id=chosen.id)], who=WHO)

    def adopt(self, _pick: int) -> None:
        services.adopt("P", GroupChange(), who=WHO)

    def dissolve(self, _pick: int) -> None:
        services.dissolve("P", who=WHO)

    def delete_group(self, _pick: int) -> None:
        services.delete("P", who=WHO)

    # --- Time, and others like us.

    def wait(self, pick: int) -> None:
        """Longer than the lease, or than the pause after adopting."""
        self.clock.advance((3, 61, 130)[pick % 3])

    def other_cycle(self, _pick: int) -> None:
        """A second coordinator, with a memory of its own."""
        Cycle(self.world.database.session, self.clock).run()


AROUND = sorted(
    name for name in vars(Moves) if name not in {"play", "choose", "with_one", "of_run"} and name[0] != "_"
)
"""The names of all moves."""
MEANWHILE = st.sampled_from(AROUND)
SERVICES = ("adopt", "dissolve", "resize", "change", "force")


class History(RuleBasedStateMachine):
    """One world, one coordinator, and whatever happens to them."""

    database: ClassVar[Database]
    clock: ClassVar[FakeClock]
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.clock.reset()
        self.world = World(self.database, self.clock)
        self.seen: dict[str, tuple[int, str]] = {}
        self.excused: set[str] = set()

    @initialize(size=st.sampled_from((1, 2, 3)), strategy=st.sampled_from(Strategy), busy=PICKS)
    def begin(self, size: int, strategy: Strategy, busy: int) -> None:
        """Two groups, every task instance waiting for its turn, and the first of them under way."""
        self.database.clean(keep=DAG_TABLES)
        self.moves = Moves(self.world, FakeScheduler(self.database, self.clock))
        for dag_id, run_ids in RUNS.items():
            self.moves.scheduler.do("pause", dag_id, False)
            for run_id in run_ids:
                self.world.run(dag_id, run_id)
        pin_runs(self.database)
        for key, values in keys():
            self.world.tasks(
                [key],
                values["pool"],
                state=None,
                try_number=0,
                priority_weight=values["priority_weight"],
                pool_slots=values.get("pool_slots", 1),
            )
        self.world.group("P", size, strategy=strategy, max_passes=2)
        self.world.group("Q/q x", 1)
        self.flow(busy)

    @rule()
    def cycle(self) -> None:
        """One cycle that nothing disturbs leaves everything as it should be."""
        self.clock.advance()
        before = self.look()
        came_again = {r.id for r in before.live() if r.id in self.moves.came_again and waits_again(before, r)}
        # One that the scheduler has queued since keeps its slot, as a retry that is too fast does.
        self.moves.came_again = came_again
        assert not self.world.cycle.run().errors
        self.judge(cycle_kept_the_rules(before, self.look()))
        self.world.sweep.run()
        facts = self.look()
        self.judge(when_settled(facts))
        still = [key_of(request) for request in facts.live() if request.id in came_again]
        assert not still, f"scheduled anew after they ran, and hold their slots: {still}"

    @rule(pick=PICKS)
    def cycle_and_go(self, pick: int) -> None:
        """What is let in is started: the common case, made common."""
        self.cycle()
        self.moves.play("go", pick)

    @rule(pick=PICKS)
    def flow(self, pick: int) -> None:
        """Some are due, let in and started."""
        self.moves.play("due_many", pick)
        self.cycle_and_go(pick)

    @rule(pick=PICKS)
    def flow_and_end(self, pick: int) -> None:
        """The same, after one has ended."""
        self.moves.play("succeed", pick)
        self.flow(pick)

    @rule(at=STATEMENTS)
    def die_in_cycle(self, at: int) -> None:
        """The coordinator is killed in front of a statement; another takes over."""
        self.dying(at, self.world.cycle.run)
        self.world.cycle = Cycle(self.database.session, self.clock)

    @rule(at=STATEMENTS, service=st.sampled_from(SERVICES), pick=PICKS)
    def die_in_service(self, at: int, service: str, pick: int) -> None:
        """Whoever changes the group is killed in the midst of it."""
        self.dying(at, functools.partial(self.moves.play, service, pick))

    def dying(self, at: int, work: Callable[[], object]) -> None:
        """Do some work until it is killed."""
        self.clock.advance()
        with watched(self.database.engine, at, die):
            try:
                work()
            except CoordinatorDied:
                note(f"  killed at statement {at}")

    @rule(at=STATEMENTS, meanwhile=MEANWHILE, pick=PICKS)
    def disturbed_cycle(self, at: int, meanwhile: str, pick: int) -> None:
        """Something happens between two statements of a cycle."""
        self.disturbed(at, meanwhile, pick, lambda: self.no_errors(self.world.cycle.run()))

    @rule(at=STATEMENTS, meanwhile=MEANWHILE, pick=PICKS, service=st.sampled_from(SERVICES))
    def disturbed_service(self, at: int, meanwhile: str, pick: int, service: str) -> None:
        """Something happens between two statements of a change by hand."""
        self.disturbed(at, meanwhile, pick, functools.partial(self.moves.play, service, pick))

    def disturbed(self, at: int, meanwhile: str, pick: int, work: Callable[[], object]) -> None:
        """Do some work, and let something happen in the midst of it."""
        self.clock.advance()
        with watched(self.database.engine, at, lambda _c: self.moves.play(meanwhile, pick)) as statements:
            try:
                work()
            except DBAPIError as error:
                # The loop tries again; without a disturbance there is nobody to hold a lock.
                if not (is_locked(error) and statements.happened):
                    raise
        note(f"  {meanwhile} happened: {statements.happened}")

    def no_errors(self, result: Any) -> None:
        """No group of a cycle failed with anything but locks."""
        assert not result.errors, result.errors

    @invariant()
    def holds_at_any_moment(self) -> None:
        """Whatever has just happened."""
        type(self).steps += 1
        if not hasattr(self, "moves"):
            return
        facts = self.look()
        self.judge(at_any_moment(facts))
        self.judge(self.overdraft_has_a_cause(facts))

    def overdraft_has_a_cause(self, facts: Facts) -> Iterable[str]:
        """Rule 2: a shrink, the end of a bypass, an adoption, or somebody who did not ask."""
        for name, group in facts.groups.items():
            state = (group.slots, group.mode)
            if self.seen.get(name) != state:
                self.excused.add(name)
            self.seen[name] = state
            over = facts.overdraft(name)
            unasked = facts.strangers(name) or any(
                r.admission != "queue" for r in facts.live("granted", name)
            )
            if not over:
                self.excused.discard(name)
            elif not unasked and name not in self.excused:
                yield f"'{name}' is over its size by {over}, and nobody knows why"
        for name in self.seen.keys() - facts.groups.keys():
            del self.seen[name]

    def look(self) -> Facts:
        """Read the tables."""
        return look(self.database, self.clock.now)

    def judge(self, broken: Iterable[str]) -> None:
        """Fail with everything that is broken."""
        found = list(broken)
        assert not found, "\n".join(found)

    def teardown(self) -> None:
        """Left to itself, with nothing in the way, everything ends and nothing is left behind."""
        if hasattr(self, "moves"):
            Drain(self).run()


class Drain:
    """Takes everything out of the way, and lets all that is due run to its end."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.world, self.moves = history.world, history.moves

    def run(self) -> None:
        """Work until nothing is unfinished."""
        self.make_way()
        for _ in range(60):
            if not self.unfinished():
                break
            self.history.cycle()
            self.work()
            note(f"  drain: {self.under_way()}")
        self.history.cycle()
        facts = self.history.look()
        left = [
            f"{key}: {ti.state} in {ti.pool}, requests {[r for r in facts.live() if key_of(r) == key]}"
            for key, ti in facts.tis.items()
            if ti.state not in (None, *FINISHED)
        ]
        assert not left, f"never ended: {left}"
        assert not facts.live(), f"live requests are left: {facts.live()}"

    def make_way(self) -> None:
        """Open all that may be shut."""
        self.history.cycle()
        for name in ("P", "Q/q x"):
            if self.history.look().pools.get(name) is None:
                self.world.pool(name, 4)
        self.history.cycle()
        self.moves.play("adopt", 0)
        self.world.clock.advance(200)
        services.set_group("P", GroupChange(slots=4), who=WHO)
        self.world.set_group("P", mode="active")
        self.world.set_requests(suspended=False)
        for dag_id in TASKS:
            self.moves.scheduler.do("pause", dag_id, False)
        for dag_id, run_id in self.history.look().runs:
            self.moves.scheduler.do("set_run", dag_id, run_id, "running")

    def unfinished(self) -> bool:
        """Whether anything is still under way."""
        states = {ti.state for ti in self.history.look().tis.values()}
        return bool(states - {None, *FINISHED})

    def under_way(self) -> list[str]:
        """What is unfinished, for a failure to show."""
        tis = self.history.look().tis
        return [
            f"{key} {ti.state} in {ti.pool}" for key, ti in tis.items() if ti.state not in (None, *FINISHED)
        ]

    def work(self) -> None:
        """Everything that runs ends, and everything that waits for its time has it."""
        self.world.clock.advance(5)
        scheduler = self.moves.scheduler
        scheduler.critical_section()
        for key, ti in self.history.look().tis.items():
            move = {"queued": "start", "deferred": "resume", "awaiting_input": "resume"}.get(ti.state)
            if move:
                scheduler.do(move, key)
            elif ti.state in ("running", "restarting"):
                scheduler.do("end", key, "success")
            elif ti.state in BETWEEN - {None}:
                scheduler.do("due", key)


DAG_TABLES = (
    "dag",
    "dag_bundle",
    "dag_version",
    "dag_code",
    "serialized_dag",
    "dag_tag",
    "dag_owner_attributes",
)


def make_rule(name: str) -> Any:
    """A rule that makes one move."""

    def step(self: History, pick: int) -> None:
        self.moves.play(name, pick)

    step.__name__ = step.__qualname__ = name
    return rule(pick=PICKS)(step)


for _name in AROUND:
    setattr(History, _name, make_rule(_name))


def waits_again(facts: Facts, request: Any) -> bool:
    """Its try is scheduled, and the scheduler has not queued it yet."""
    ti = facts.ti_of(request)
    return ti is not None and ti.state == "scheduled" and ti.try_number == request.try_number

"""Random histories: anything that can happen to a group, in any order, and at any statement (hypothesis)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy.exc import DBAPIError

from airflow_slotgroups.airflow_core.locks import is_locked
from airflow_slotgroups.coordinator.cycle import Cycle
from airflow_slotgroups.domain.states import Strategy
from tests.integration.support.clock import FakeClock
from tests.integration.support.dags import pin_runs
from tests.integration.support.databases import Database
from tests.integration.support.drain import Drain
from tests.integration.support.faults import CoordinatorDied, die, watched
from tests.integration.support.history_dags import OUTSIDE, RUNS, task_instances
from tests.integration.support.moves import AROUND, Moves
from tests.integration.support.rules import (
    Facts,
    at_any_moment,
    cycle_kept_the_rules,
    key_of,
    look,
    raised_rightly,
    thorough_cycle_kept_the_rules,
    when_settled,
)
from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import World

PICKS = st.integers(0, 999)
"""Chooses among what is there at that moment: the remainder by its number."""
STATEMENTS = st.integers(1, 60)
MEANWHILE = st.sampled_from(AROUND)
SERVICES = (
    *("adopt", "dissolve", "resize", "change", "mode"),
    *("force", "prioritize", "to_top", "suspend", "unsuspend"),
)

DAG_TABLES = (
    "dag",
    "dag_bundle",
    "dag_version",
    "dag_code",
    "serialized_dag",
    "dag_tag",
    "dag_owner_attributes",
)


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
            self.moves.scheduler.do("find_file", dag_id, True)
            for run_id in run_ids:
                self.world.run(dag_id, run_id)
        for key, row in task_instances():
            self.world.tasks([key], **row, state=None, try_number=0)
        self.world.pool(OUTSIDE, 4)
        pin_runs(self.database)
        self.world.group("P", size, strategy=strategy, max_passes=2)
        self.world.group("Q/q x", 1)
        self.flow(busy)

    @rule()
    def cycle(self) -> None:
        """One cycle that nothing disturbs leaves everything as it should be."""
        self.clock.advance()
        before = self.look()
        assert not self.world.cycle.run().errors
        self.judge(thorough_cycle_kept_the_rules(before, self.look()))
        self.world.sweep.run()
        if acquires_ended_by(before):
            # Sections that have begun or gone on by this: the next cycle counts them, or ends them again.
            assert not self.world.cycle.run().errors
        facts = self.look()
        self.judge(when_settled(facts))
        still = [key_of(request) for request in facts.live() if request.id in self.moves.came_again]
        assert not still, f"scheduled anew after they ran, and hold their slots: {still}"

    @rule()
    def urgent_cycle(self) -> None:
        """What a coordinator does most of the time; the rest waits for a thorough cycle."""
        self.clock.advance()
        before = self.look()
        assert not self.world.cycle.run(thorough=False).errors
        self.judge(cycle_kept_the_rules(before, self.look()))

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

    @rule(pick=PICKS)
    def long_wait(self, pick: int) -> None:
        """Time passes, and the next cycle finds what has run out."""
        self.moves.play("wait", pick)
        self.flow(pick)

    @rule(pick=PICKS)
    def to_top(self, pick: int) -> None:
        """A lever that nothing disturbs, and what it leaves."""
        before = self.look()
        raised = self.moves.play("to_top", pick)
        if raised:
            self.judge(raised_rightly(before, self.look(), "P", raised))

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
        # One that the scheduler has queued since keeps its slot, as a retry that is too fast does.
        self.moves.came_again &= {r.id for r in facts.live() if waits_again(facts, r)}
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


def make_rule(name: str) -> Any:
    """A rule that makes one move."""

    def step(self: History, pick: int) -> None:
        self.moves.play(name, pick)

    step.__name__ = step.__qualname__ = name
    return rule(pick=PICKS)(step)


for _name in AROUND:
    if _name not in vars(History):
        setattr(History, _name, make_rule(_name))


def acquires_ended_by(before: Facts) -> bool:
    """Some acquire waited, or had been marked success by hand while it waited."""
    return any(
        ti is not None and (ti.state == "deferred" or request.state == "waiting")
        for request, ti in ((r, before.ti_of(r)) for r in before.live() if r.kind == "section")
    )


def waits_again(facts: Facts, request: Any) -> bool:
    """Its try is scheduled, and the scheduler has not queued it yet."""
    ti = facts.ti_of(request)
    return ti is not None and ti.state == "scheduled" and ti.try_number == request.try_number

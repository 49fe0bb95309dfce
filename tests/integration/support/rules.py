"""The invariants of the design, judged from the bare tables, with none of the product's SQL (DESIGN section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance

from airflow_slotgroups.models import SlotGroup, SlotRequest
from tests.integration.support.databases import Database
from tests.integration.support.world import Key

EXECUTING = {"queued", "running", "restarting"}
HELD = EXECUTING | {"scheduled", "deferred", "awaiting_input"}
BETWEEN = {None, "up_for_retry", "up_for_reschedule"}
LIVE = {"waiting", "granted"}
OVER = {"success", "failed", "skipped", "upstream_failed"}
UNLIMITED = "slotgroups.unlimited"
FIRST = -(2**70)


@dataclass
class Facts:
    """Everything that stands in the tables at one moment."""

    now: datetime
    tis: dict[Key, Any] = field(default_factory=dict)
    requests: list[Any] = field(default_factory=list)
    groups: dict[str, Any] = field(default_factory=dict)
    pools: dict[str, Any] = field(default_factory=dict)
    runs: dict[tuple[str, str], Any] = field(default_factory=dict)
    dags: dict[str, Any] = field(default_factory=dict)
    expiries: list[Any] = field(default_factory=list)
    """What the audit log says of tasks that have waited too long."""

    def live(self, state: str | None = None, pool: str | None = None) -> list[Any]:
        """Live requests, of one state or both, of one group or all."""
        return [
            r
            for r in self.requests
            if r.state in LIVE and state in (None, r.state) and pool in (None, r.pool)
        ]

    def ti_of(self, request: Any) -> Any:
        """The task instance of a request, whatever its try; None when it is gone."""
        return self.tis.get(key_of(request))

    def same_try(self, request: Any) -> bool:
        """The task instance is there, at the try that the request is for."""
        ti = self.ti_of(request)
        return ti is not None and bool(ti.try_number == request.try_number)

    def is_acquire(self, ti: Any) -> bool:
        """It is the first task of a section."""
        return bool(ti.operator == "AcquireSlotsOperator")

    def section_is_over(self, hold: Any) -> str | None:
        """Why a section holds nothing any more; None while it goes on (rule 12)."""
        run, acquire = self.runs.get((hold.dag_id, hold.run_id)), self.ti_of(hold)
        tis = [ti for ti in self.tis.values() if (ti.dag_id, ti.run_id) == (hold.dag_id, hold.run_id)]
        if run is None or acquire is None:
            return "it is gone"
        if run.state in ("success", "failed"):
            return f"its run is {run.state}"
        if acquire.state in OVER - {"success"}:
            return f"its acquire is {acquire.state}"
        if any(ti.task_id == hold.release_task_id and ti.state in OVER for ti in tis):
            return "its release has finished"
        if all(ti.state in OVER for ti in tis if ti.operator != "ReleaseSlotsOperator"):
            return "nothing of it is unfinished"
        return None

    def has_grant(self, ti: Any) -> bool:
        """This try of the task instance holds slots."""
        key = key_of(ti)
        return any(key_of(r) == key and r.try_number == ti.try_number for r in self.live("granted"))

    def is_test(self, ti: Any) -> bool:
        """It belongs to a run of `dag.test()`."""
        run = self.runs.get((ti.dag_id, ti.run_id))
        return run is not None and (
            run.triggered_by == "test" or run.run_id.startswith("__airflow_temporary_run_")
        )

    def strangers(self, pool: str) -> list[Any]:
        """Task instances that use slots of a group without a grant."""
        inside = pool + ".running"
        return [
            ti
            for ti in self.tis.values()
            if (
                (ti.pool == pool and ti.state in EXECUTING)
                or (ti.pool == inside and ti.state in EXECUTING | {"deferred"})
                or (self.forced_in(ti) == pool and ti.state in EXECUTING | {"deferred"})
            )
            and not self.has_grant(ti)
            and not self.is_test(ti)
        ]

    def forced_in(self, ti: Any) -> str | None:
        """The group that a task instance in the pool of forced starts was last forced in."""
        if ti.pool != "slotgroups.unlimited":
            return None
        forced = [r for r in self.requests if r.forced and key_of(r) == key_of(ti)]
        return max(forced, key=lambda r: r.id).pool if forced else None

    def use(self, pool: str) -> int:
        """Slots in use (rule 1)."""
        granted = sum(r.slots for r in self.live("granted", pool))
        return granted + sum(ti.pool_slots for ti in self.strangers(pool))

    def overdraft(self, pool: str) -> int:
        """Slots in use above the size."""
        group = self.groups[pool]
        unlimited = group.slots == -1 or group.mode in ("bypass", "dissolving")
        return 0 if unlimited else max(0, self.use(pool) - group.slots)


def key_of(row: Any) -> Key:
    """The task instance that a row is of, or for."""
    return Key(row.dag_id, row.run_id, row.task_id, row.map_index)


def try_of(row: Any) -> tuple[Key, int]:
    """The try that a row is for."""
    return key_of(row), row.try_number


def ids(requests: Iterable[Any]) -> list[int]:
    """Their numbers."""
    return [request.id for request in requests]


def look(database: Database, now: datetime) -> Facts:
    """Read all tables."""
    facts = Facts(now)
    with database.session() as session:

        def rows(table: Any) -> Iterable[Any]:
            found = session.execute(sa.select(table.__table__))
            names = list(found.keys())
            # There are thousands of looks at dozens of rows, and `row._mapping` is slow.
            return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in found]

        facts.tis = {key_of(row): row for row in rows(TaskInstance)}
        facts.requests = list(rows(SlotRequest))
        facts.groups = {row.pool: row for row in rows(SlotGroup)}
        facts.pools = {row.pool: row for row in rows(Pool)}
        facts.runs = {(row.dag_id, row.run_id): row for row in rows(DagRun)}
        facts.dags = {row.dag_id: row for row in rows(DagModel)}
        facts.expiries = [row for row in rows(Log) if row.event == "slotgroups.max_wait"]
    return facts


# --- What holds at every moment, in the midst of anything.


def at_any_moment(facts: Facts) -> Iterator[str]:
    """Yield what is broken."""
    yield from one_live_request(facts)
    yield from states_are_whole(facts)
    yield from queues_are_in_order(facts)
    yield from expired_ones_have_failed(facts)


def one_live_request(facts: Facts) -> Iterator[str]:
    """Rule 11."""
    counts = Counter(key_of(request) for request in facts.live())
    yield from (f"{key} has {number} live requests" for key, number in counts.items() if number > 1)


def states_are_whole(facts: Facts) -> Iterator[str]:
    """The columns of a request tell one story."""
    for request in facts.requests:
        name = f"request {request.id} of {key_of(request)}, {request.state},"
        if (request.live is True) != (request.state in LIVE):
            yield f"{name} has live = {request.live}"
        if (request.ended_at is None) != (request.state in LIVE):
            yield f"{name} has ended_at = {request.ended_at}"
        if (request.granted_at is None) != (request.state in ("waiting", "cancelled")):
            yield f"{name} has granted_at = {request.granted_at}"
        if (request.admission is None) != (request.granted_at is None):
            yield f"{name} has admission = {request.admission}"


def queues_are_in_order(facts: Facts) -> Iterator[str]:
    """Rule 4: what is stored to sort by gives the order that priority, arrival and ageing do."""
    for name in facts.groups:
        stored = sorted(facts.live("waiting", name), key=lambda r: (r.order_major, r.order_minor, r.id))
        if ids(stored) != ids(in_order(facts, name)):
            yield f"the queue of '{name}' is stored as {ids(stored)} and should be {ids(in_order(facts, name))}"


def expired_ones_have_failed(facts: Facts) -> Iterator[str]:
    """A request that expired never held slots, its try goes on nowhere, and the audit log says why, once."""
    expired = [r for r in facts.requests if r.end_reason == "expired"]
    for request in expired:
        name = f"{key_of(request)} try {request.try_number}, which expired,"
        if request.state != "cancelled" or request.ended_at < request.expires_at:
            yield f"{name} is {request.state}, ended at {request.ended_at}"
        if facts.same_try(request) and facts.ti_of(request).state in HELD:
            yield f"{name} is {facts.ti_of(request).state}"
    if Counter(map(try_of, expired)) != Counter(map(try_of, facts.expiries)):
        yield f"the audit log tells of {facts.expiries}, and there expired {expired}"


# --- What holds after a cycle and a sweep that nothing disturbed.


def when_settled(facts: Facts) -> Iterator[str]:
    """Yield what is broken."""
    yield from holders_hold_rightly(facts)
    yield from sections_hold_rightly(facts)
    yield from waiters_wait_rightly(facts)
    yield from nobody_inside_unknown(facts)
    yield from everybody_is_enqueued(facts)
    yield from pools_are_right(facts)
    yield from nothing_of_dissolved_groups(facts)
    yield from no_idle_slots(facts)
    yield from idle_grants_can_start(facts)
    yield from nobody_waits_too_long(facts)


def holders_hold_rightly(facts: Facts) -> Iterator[str]:
    """Every live grant of a task has a live try in its place; all ended tries hold nothing."""
    for request in facts.live("granted"):
        if request.kind == "section":
            continue
        ti = facts.ti_of(request)
        name = f"holder {key_of(request)} try {request.try_number}"
        if not facts.same_try(request):
            yield f"{name}: its try is gone"
        elif ti.state not in HELD:
            yield f"{name}: holds slots in state {ti.state}"
        elif ti.state == "scheduled" and ti.pool not in (request.pool + ".running", UNLIMITED):
            yield f"{name}: is let in and stands in pool '{ti.pool}'"


def sections_hold_rightly(facts: Facts) -> Iterator[str]:
    """Every hold has a section that goes on, and a new try of its acquire goes on with it at once."""
    for hold in facts.live("granted"):
        if hold.kind != "section":
            continue
        name, acquire = f"hold {hold.id} of {key_of(hold)}", facts.ti_of(hold)
        if why := facts.section_is_over(hold):
            # One that has come a moment ago, with nothing left to do, ends in the next cycle.
            if hold.granted_at < facts.now:
                yield f"{name} holds its slots, and {why}"
        elif acquire.state == "deferred" and "could not be let in" not in (hold.notice or ""):
            yield f"{name} has its slots, and its acquire waits"


def waiters_wait_rightly(facts: Facts) -> Iterator[str]:
    """Every live waiter is that try, in the closed pool, scheduled, or deferred if it is an acquire."""
    for request in facts.live("waiting"):
        if not facts.same_try(request) or not waits(facts, request):
            yield f"waiter {key_of(request)} try {request.try_number} waits no longer"


def waits(facts: Facts, request: Any) -> bool:
    """Its task instance stands where those stand that wait."""
    ti, state = facts.ti_of(request), {"task": "scheduled", "section": "deferred"}[request.kind]
    return (ti.state, ti.pool) == (state, request.pool)


def nobody_inside_unknown(facts: Facts) -> Iterator[str]:
    """Nobody stands in a running pool, or executes in a closed one, without a grant (rules 1 and 10)."""
    for pool in facts.groups:
        for ti in facts.strangers(pool):
            yield f"{key_of(ti)} is {ti.state} in pool '{ti.pool}' and holds nothing"
        for ti in facts.tis.values():
            if ti.pool != pool + ".running" or facts.has_grant(ti):
                continue
            # Parked for a person: neither Airflow's pool nor rule 1 counts it.
            if ti.state in BETWEEN | {"scheduled"}:
                yield f"{key_of(ti)} is {ti.state} in '{ti.pool}' without a grant"
    for ti in facts.tis.values():
        if ti.pool == UNLIMITED and ti.state in BETWEEN | {"scheduled"} and not facts.has_grant(ti):
            yield f"{key_of(ti)} is {ti.state} in '{ti.pool}' without a grant"


def everybody_is_enqueued(facts: Facts) -> Iterator[str]:
    """Who waits in a closed pool has a request; those of `dag.test()` have none."""
    waiting = {(key_of(r), r.try_number) for r in facts.live("waiting")}
    # A new try of an acquire that could not go on with its own hold has the hold.
    waiting |= {(key, ti.try_number) for key, ti in facts.tis.items() if holds_a_section(facts, key)}
    for key, ti in facts.tis.items():
        state = "deferred" if facts.is_acquire(ti) else "scheduled"
        if ti.state == state and ti.pool in facts.groups:
            if facts.groups[ti.pool].mode == "dissolving":
                continue
            if ((key, ti.try_number) in waiting) == facts.is_test(ti):
                yield f"{key} is {state} in '{ti.pool}' and {'is' if facts.is_test(ti) else 'not'} enqueued"


def holds_a_section(facts: Facts, key: Key) -> bool:
    """A live hold is that of this acquire, whatever its try."""
    return any(key_of(r) == key and r.kind == "section" for r in facts.live("granted"))


def pools_are_right(facts: Facts) -> Iterator[str]:
    """P is closed, and `P.running` has the size that rule 3 derives."""
    for name, group in facts.groups.items():
        pool, running = facts.pools.get(name), facts.pools.get(name + ".running")
        if pool is None or group.mode == "dissolving":
            continue
        if (pool.slots, pool.include_deferred) != (0, False):
            yield f"pool '{name}' is open: {pool.slots}, {pool.include_deferred}"
        wanted = size_inside(facts, name)
        if running is None or (running.slots, running.include_deferred) != (wanted, True):
            yield f"pool '{name}.running' should have {wanted} slots: {running}"


def size_inside(facts: Facts, name: str) -> int:
    """Rule 3."""
    group = facts.groups[name]
    if group.slots == -1 or group.mode == "bypass":
        return -1
    executing = (t for t in facts.tis.values() if t.pool == name and t.state in EXECUTING)
    outside = sum(t.pool_slots for t in executing if not facts.is_test(t))
    by_force = [
        r for r in facts.live("granted", name) if facts.same_try(r) and facts.ti_of(r).pool == UNLIMITED
    ]
    by_sections = [r for r in facts.live("granted", name) if r.kind == "section"]
    return max(0, int(group.slots) - outside - sum(r.slots for r in by_force + by_sections))


def nothing_of_dissolved_groups(facts: Facts) -> Iterator[str]:
    """An ordinary pool has no live requests and no running pool."""
    for request in facts.live():
        if request.pool not in facts.groups:
            yield f"{key_of(request)} has a live request of '{request.pool}', which is no group"
    for pool in facts.pools:
        helps = pool.endswith(".running") and pool not in facts.groups
        if helps and pool.removesuffix(".running") not in facts.groups:
            yield f"pool '{pool}' outlives its group"


def no_idle_slots(facts: Facts) -> Iterator[str]:
    """Rule 2: no slot is idle while an eligible request that fits waits, and is not behind a strict head."""
    for name, group in facts.groups.items():
        if group.mode not in ("active", "bypass") or f"{name}.running" not in facts.pools:
            continue
        if name not in facts.pools or (group.admits_from is not None and group.admits_from > facts.now):
            continue
        first = first_to_let_in(facts, name)
        if first is not None:
            yield f"{key_of(first)} could be let in by '{name}', of which {facts.use(name)} are in use"


def idle_grants_can_start(facts: Facts) -> Iterator[str]:
    """Rule 6: a grant that never came to anything is taken back when its task can not start."""
    for request in facts.live("granted"):
        ti, group = facts.ti_of(request), facts.groups.get(request.pool)
        if group is None or group.mode == "dissolving" or not facts.same_try(request):
            continue
        if not is_unused(request, ti):
            continue
        # As if it still waited, in a group without a limit: its own grant is not counted.
        waits = SimpleNamespace(**{**vars(request), "state": "waiting", "not_before": None})
        others = [waits if r is request else r for r in facts.requests]
        home = SimpleNamespace(**{**vars(ti), "pool": request.pool})
        wide = SimpleNamespace(**{**vars(group), "slots": -1})
        changed = {
            "requests": others,
            "tis": {**facts.tis, key_of(ti): home},
            "groups": {**facts.groups, request.pool: wide},
        }
        if not eligible(Facts(**{**vars(facts), **changed}), waits):
            yield f"{key_of(request)} holds slots that it can not use"


def nobody_waits_too_long(facts: Facts) -> Iterator[str]:
    """Who has waited as long as its task allows is failed, or it is said why it can not be."""
    for request in facts.live("waiting"):
        until = waits_until(facts, request)
        said = "could not be failed" in (request.notice or "")
        if request.expires_at != until and not (until and until < request.expires_at and said):
            yield f"{key_of(request)} waits until {request.expires_at} and should until {until}"
        if request.expires_at is not None and request.expires_at <= facts.now:
            yield f"{key_of(request)} waits, and should have failed at {request.expires_at}"


def waits_until(facts: Facts, request: Any) -> datetime | None:
    """When the max_wait of its task has passed; None without one."""
    seconds = (facts.ti_of(request).executor_config or {}).get("slotgroups", {}).get("max_wait_seconds")
    return None if seconds is None else request.enqueued_at + timedelta(seconds=seconds)


def is_unused(request: Any, ti: Any) -> bool:
    """The scheduler has not queued it since the grant."""
    idle = ti.state == "scheduled" and not ti.next_method and ti.queued_dttm == request.ti_queued_at
    return bool(idle and not request.was_queued)


def first_to_let_in(facts: Facts, name: str) -> Any:
    """The waiter that a decision made now would let in first; None when there is none."""
    group = facts.groups[name]
    unlimited = group.slots == -1 or group.mode == "bypass"
    free = None if unlimited else max(0, group.slots - facts.use(name))
    head = None
    for request in in_order(facts, name):
        if not eligible(facts, request):
            continue
        if request.forced:
            return request
        if free is None or request.slots <= free:
            if head is None or (group.strategy == "backfill" and head.passes < group.max_passes):
                return request
        elif head is None:
            head = request
    return None


def in_order(facts: Facts, name: str) -> list[Any]:
    """The queue, in the order of rule 4, from priority and arrival themselves."""
    ageing = facts.groups[name].ageing_seconds

    def place(request: Any) -> tuple[float, ...]:
        arrived = int(request.arrived_at.timestamp() * 1000 + 0.5)
        if request.forced:
            return FIRST, arrived, request.id
        first = arrived - request.priority * ageing * 1000 if ageing else -request.priority
        return first, arrived, request.id

    return sorted(facts.live("waiting", name), key=place)


def eligible(facts: Facts, request: Any) -> bool:
    """Rule 6, for a request that waits."""
    group, run = facts.groups[request.pool], facts.runs.get((request.dag_id, request.run_id))
    dag = facts.dags.get(request.dag_id)
    return bool(
        not request.suspended
        and (request.not_before is None or request.not_before <= facts.now)
        and (request.forced or group.slots == -1 or group.mode == "bypass" or request.slots <= group.slots)
        and dag is not None
        and not dag.is_paused
        and run is not None
        and run.state == "running"
        and facts.same_try(request)
        and waits(facts, request)
        and (request.kind == "section" or below_limits(facts, request, dag))
    )


def below_limits(facts: Facts, request: Any, dag: Any) -> bool:
    """Airflow's own limits, those that are let in and not queued yet counted too."""
    run = [ti for ti in facts.tis.values() if (ti.dag_id, ti.run_id) == (request.dag_id, request.run_id)]
    executes = sum(ti.state in ("queued", "running") or is_let_in(facts, ti) for ti in run)
    active = [ti for ti in facts.tis.values() if ti.dag_id == request.dag_id and is_active(facts, ti)]
    of_task = [ti for ti in active if ti.task_id == request.task_id]
    of_run = [ti for ti in of_task if ti.run_id == request.run_id]
    most, most_of_run = request.max_active_tis_per_dag, request.max_active_tis_per_dagrun
    return (
        executes < dag.max_active_tasks
        and (most is None or len(of_task) < most)
        and (most_of_run is None or len(of_run) < most_of_run)
    )


def is_let_in(facts: Facts, ti: Any) -> bool:
    """Granted, and not seen by the scheduler so far."""
    return bool(ti.state == "scheduled") and facts.has_grant(ti)


def is_active(facts: Facts, ti: Any) -> bool:
    """Counted for a task's own limits."""
    return ti.state in ("queued", "running", "deferred", "awaiting_input") or is_let_in(facts, ti)


# --- What holds between the two ends of a cycle that nothing disturbed.


def granted_in(before: Facts, after: Facts, pool: str) -> list[Any]:
    """Requests that a cycle let in, in their turn."""
    known = {r.id for r in before.live("granted", pool)}
    return [r for r in after.live("granted", pool) if r.id not in known and r.admission == "queue"]


def cycle_kept_the_rules(before: Facts, after: Facts) -> Iterator[str]:
    """Never over capacity by a grant, and nobody before a higher one that could have gone (rules 2 and 4)."""
    for name in before.groups.keys() & after.groups.keys():
        grants = granted_in(before, after, name)
        over = after.overdraft(name)
        known = {r.id for r in before.live("granted", name)}
        forced = [r for r in after.live("granted", name) if r.id not in known and r.admission == "forced"]
        if grants and over:
            yield f"'{name}' let in {[str(key_of(r)) for r in grants]} and is over its size by {over}"
        if (
            not grants
            and over > before.overdraft(name) + sum(r.slots for r in forced)
            and after.groups[name].slots == before.groups[name].slots
        ):
            yield f"a cycle brought '{name}' over its size by {over}, from {before.overdraft(name)}"
        yield from nobody_was_passed(after, name, grants)
        yield from only_those_who_may(before, name, grants + forced)
    yield from expiries_failed(before, after)
    yield from sections_kept_their_slots(before, after)


def thorough_cycle_kept_the_rules(before: Facts, after: Facts) -> Iterator[str]:
    """The same, and what may wait half a second for it: grants of a group over its size that came to nothing."""
    yield from cycle_kept_the_rules(before, after)
    for name in before.groups.keys() & after.groups.keys():
        known = {r.id for r in before.live("granted", name)}
        forced = [r for r in after.live("granted", name) if r.id not in known and r.admission == "forced"]
        same_size = after.groups[name].slots == before.groups[name].slots
        if same_size and after.overdraft(name) > sum(r.slots for r in forced):
            yield from idle_grants_went_back(after, name, known)


def sections_kept_their_slots(before: Facts, after: Facts) -> Iterator[str]:
    """No hold ends while its section goes on."""
    live = {r.id for r in after.live("granted")}
    for hold in before.live("granted"):
        if hold.kind == "section" and hold.id not in live and not before.section_is_over(hold):
            yield f"hold {hold.id} of {key_of(hold)} has ended, and its section goes on"


def only_those_who_may(before: Facts, name: str, let_in: list[Any]) -> Iterator[str]:
    """A suspended waiter is not let in, by force neither; and nobody in his turn while the group is paused."""
    for request in let_in:
        if request.suspended:
            yield f"{key_of(request)} is suspended, and was let in"
        if request.admission == "queue" and before.groups[name].mode == "paused":
            yield f"{key_of(request)} was let in by '{name}', which is paused"


def idle_grants_went_back(after: Facts, name: str, known: set[int]) -> Iterator[str]:
    """Rule 6: a grant that has not come to anything is taken back while its group is over its size."""
    for request in after.live("granted", name):
        if request.id in known and request.admission == "queue" and is_unused(request, after.ti_of(request)):
            yield f"{key_of(request)} holds slots in '{name}', which has no room for it"


def nobody_was_passed(after: Facts, name: str, grants: list[Any]) -> Iterator[str]:
    """Who still waits, could start, and stands before somebody who was let in, did not fit (`backfill`)."""
    group = after.groups[name]
    left = {r.id for r in after.live("waiting", name)}
    # Put the granted back among the waiters, so that one order speaks of both.
    restored = [
        SimpleNamespace(**{**vars(r), "state": "waiting"}) if r.id in ids(grants) else r
        for r in after.requests
    ]
    queue = in_order(Facts(**{**vars(after), "requests": restored}), name)
    last = max((place for place, r in enumerate(queue) if r.id not in left), default=-1)
    unlimited = group.slots == -1 or group.mode == "bypass"
    free = float("inf") if unlimited else max(0, group.slots - after.use(name))
    for request in queue[: last + 1]:
        if request.id not in left or not eligible(after, request):
            continue
        if group.strategy == "strict" or request.slots <= free:
            yield f"{key_of(request)} was passed in '{name}'"


def expiries_failed(before: Facts, after: Facts) -> Iterator[str]:
    """Who waited too long waited until this cycle, and is failed by it, or is to be tried again."""
    waited = {r.id for r in before.live("waiting")}
    for request in after.requests:
        if request.end_reason == "expired" and request.id in waited:
            ti, was = after.ti_of(request), before.ti_of(request)
            if ti.state not in ("failed", "up_for_retry") or ti.queued_dttm != was.queued_dttm:
                yield f"{key_of(request)} waited too long, and is {ti.state}"


# --- What holds between the two ends of a lever that nothing disturbed.


def raised_rightly(before: Facts, after: Facts, name: str, raised: list[int]) -> Iterator[str]:
    """Those brought to the top stand before all that are not forced, and nobody else has changed places."""
    queue = [r.id for r in in_order(before, name) if not r.forced]
    wanted = [number for number in queue if number in raised]
    wanted += [number for number in queue if number not in raised]
    found = [r.id for r in in_order(after, name) if not r.forced]
    if found != wanted:
        yield f"{raised} were brought to the top of {queue}, which became {found}"

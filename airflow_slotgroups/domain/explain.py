"""Why does a task instance not run? First the one thing that holds it now, then every limit with its use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from airflow_slotgroups.domain.snapshot import UNLIMITED, Limit

FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


@dataclass(frozen=True)
class PoolFacts:
    """The pool that the task instance names.

    :param used: slots in use, as Airflow counts them.
    :param team: of the pool, in multi-team mode.
    :param group: the slot group that it belongs to; None for an ordinary pool.
    """

    name: str
    exists: bool = True
    slots: int = UNLIMITED
    used: int = 0
    team: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class GroupFacts:
    """Where the task instance stands in a slot group, in the planner's own words.

    :param reason: None for a holder.
    :param ahead: waiters before it, and
    :param ahead_named: some of them by name.
    :param holders: who holds slots, some of them by name; empty when nobody does.
    """

    name: str
    state: str
    reason: str | None = None
    position: int | None = None
    ahead: int = 0
    ahead_named: str = ""
    holders: str = ""


@dataclass(frozen=True)
class PastFacts:
    """What the last request of an ended try was.

    :param admission: how it came in; None when it never did.
    :param end_reason: why it ended.
    :param waited: seconds, and
    :param held: seconds; None when it was never let in.
    """

    group: str
    admission: str | None
    end_reason: str | None
    waited: float
    held: float | None


@dataclass(frozen=True)
class TaskFacts:
    """A task instance with all that Airflow limits it by.

    :param unmet: what Airflow's own dependency checks say, in its words.
    :param upstream: direct upstream task instances that are not done, with their states.
    :param due_at: when a retry or a reschedule is due.
    :param runs: runs of the DAG that are running, against max_active_runs.
    :param parallelism: task instances that are queued or running, against [core] parallelism.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    state: str | None
    now: datetime
    slots: int = 1
    try_number: int = 0
    dag_paused: bool = False
    dag_team: str | None = None
    run_state: str | None = "running"
    run_after: datetime | None = None
    unmet: tuple[str, ...] = ()
    upstream: tuple[tuple[str, str], ...] = ()
    due_at: datetime | None = None
    queued_at: datetime | None = None
    started_at: datetime | None = None
    hostname: str | None = None
    executor: str | None = None
    trigger: str | None = None
    triggerer_alive: bool = True
    scheduler_alive: bool = True
    runs: Limit = Limit()
    parallelism: Limit = Limit()
    run_limit: Limit = Limit()
    task_limit: Limit = Limit()
    task_run_limit: Limit = Limit()
    pool: PoolFacts = field(default_factory=lambda: PoolFacts("default_pool"))
    group: GroupFacts | None = None
    past: PastFacts | None = None


@dataclass(frozen=True)
class Check:
    """One limit.

    :param holds: it keeps the task instance from running now.
    :param value: the limit, and
    :param use: how much of it is used; both as text, empty where there is none.
    """

    name: str
    holds: bool
    text: str
    value: str = ""
    use: str = ""


@dataclass(frozen=True)
class Explanation:
    """The answer.

    :param sentence: the one thing that holds it now.
    :param name: the limit that does; empty when nothing does.
    """

    sentence: str
    name: str
    checks: tuple[Check, ...]


def explain(facts: TaskFacts) -> Explanation:
    """Answer for any task instance, in a slot group or not; no limit holds one that has ended."""
    if facts.state in FINISHED:
        return Explanation(how_it_ended(facts), "", ())
    checks = tuple(check for rule in RULES for check in rule(facts))
    if not any(check.holds for check in checks):
        checks += tuple(check_scheduled(facts))
    runs = how_it_runs(facts)
    if runs is not None:
        return Explanation(runs, "", checks)
    first = next((check for check in checks if check.holds), None)
    if first is None:
        return Explanation("nothing holds it: the scheduler takes it in its next loop", "", checks)
    return Explanation(first.text, first.name, checks)


WAYS = {
    "queue": "was let in by its turn",
    "forced": "was started by force",
    "outside": "ran without having asked",
    "adopted": "ran when the pool was adopted",
}


def how_it_ended(facts: TaskFacts) -> str:
    """Tell of a task instance that has ended, and what its slot group did with it."""
    ended = f"it has ended: {facts.state}"
    past = facts.past
    if past is None:
        return ended
    where = f"{ended}; in slot group '{past.group}' it waited {past.waited:.0f} s"
    if past.end_reason == "expired":
        return f"{where}, as long as its max_wait allows, and was never let in"
    if past.admission is None or past.held is None:
        return f"{where} and was never let in"
    return f"{where}, {WAYS[past.admission]} and held its slots for {past.held:.0f} s"


def how_it_runs(facts: TaskFacts) -> str | None:
    """Tell of a task instance that runs."""
    if facts.state in ("running", "restarting"):
        since = f" since {moment(facts.started_at)}" if facts.started_at else ""
        return f"it is {facts.state}{since} on {facts.hostname or 'a worker'}"
    return None


def check_scheduler(facts: TaskFacts) -> Iterator[Check]:
    """Somebody must schedule at all."""
    text = "a scheduler is alive" if facts.scheduler_alive else "no scheduler is alive"
    yield Check("scheduler", not facts.scheduler_alive, text)


def check_dag(facts: TaskFacts) -> Iterator[Check]:
    """The DAG must not be paused."""
    what = "is paused" if facts.dag_paused else "is not paused"
    yield Check("dag_paused", facts.dag_paused, f"DAG '{facts.dag_id}' {what}")


def check_run(facts: TaskFacts) -> Iterator[Check]:
    """The run must be running, and due."""
    if facts.run_state == "queued" and facts.run_after and facts.run_after > facts.now:
        yield Check(
            "run_after", True, f"the run is due at {moment(facts.run_after)}", moment(facts.run_after)
        )
    full = facts.run_state == "queued" and facts.runs.reached(0)
    yield limit_check("max_active_runs", facts.runs, full, "the run is queued", "runs of the DAG are running")
    if facts.run_state != "running" and not full:
        state = facts.run_state or "gone"
        yield Check("run_state", True, f"the run is {state}, not running", use=state)


def check_upstream(facts: TaskFacts) -> Iterator[Check]:
    """What must be done before."""
    if facts.state is not None:
        return
    if facts.upstream:
        names = ", ".join(f"{name} ({state})" for name, state in facts.upstream[:10])
        more = f" and {len(facts.upstream) - 10} more" if len(facts.upstream) > 10 else ""
        yield Check("upstream", True, f"waits for upstream: {names}{more}")
    elif facts.unmet:
        yield Check("dependencies", True, "; ".join(facts.unmet))


def check_due(facts: TaskFacts) -> Iterator[Check]:
    """A retry or a reschedule waits for its time."""
    if facts.state not in ("up_for_retry", "up_for_reschedule"):
        return
    what = "retry" if facts.state == "up_for_retry" else "next look"
    late = facts.due_at is not None and facts.due_at > facts.now
    when = f" is due at {moment(facts.due_at)}" if facts.due_at else " is due"
    yield Check(facts.state, late, f"its {what}{when} (try {facts.try_number})")


def check_group(facts: TaskFacts) -> Iterator[Check]:
    """The slot group, in the words of its own planner."""
    group = facts.group
    if group is None:
        return
    if group.reason is None:
        yield Check("slot_group", False, f"slot group '{group.name}' has let it in")
        return
    place = f", place {group.position}, {group.ahead} ahead" if group.position else ""
    yield Check("slot_group", True, f"waits in slot group '{group.name}'{place}: {group.reason}")
    if group.ahead_named:
        yield Check("slot_group_ahead", False, f"ahead of it: {group.ahead_named}", use=str(group.ahead))
    if group.holders:
        yield Check("slot_group_holders", False, f"slots are held by: {group.holders}")


def check_deferred(facts: TaskFacts) -> Iterator[Check]:
    """A deferred task waits on its trigger, and for somebody to run that."""
    if facts.state != "deferred" or (facts.group is not None and facts.group.reason is not None):
        return
    where = f"it is deferred on {facts.trigger or 'a trigger'}"
    text = where if facts.triggerer_alive else f"{where}, and no triggerer is alive"
    yield Check("deferred", True, text)


def check_pool(facts: TaskFacts) -> Iterator[Check]:
    """An ordinary pool; one of a slot group speaks through the group."""
    pool = facts.pool
    if facts.group is not None or pool.group is not None:
        return
    if not pool.exists:
        text = f"pool '{pool.name}' does not exist: make it in Admin → Pools, or name another in the DAG"
        yield Check("pool_missing", waits(facts), text)
        return
    if pool.team is not None and pool.team != facts.dag_team:
        owner = f"team '{facts.dag_team}'" if facts.dag_team else "no team"
        text = f"pool '{pool.name}' belongs to team '{pool.team}', the DAG to {owner}"
        yield Check("pool_team", waits(facts), text)
        return
    yield pool_slots(facts)


def pool_slots(facts: TaskFacts) -> Check:
    """Does it fit, now or ever?"""
    pool, use = facts.pool, f"{facts.pool.used} of {facts.pool.slots} slots in use"
    if pool.slots == UNLIMITED:
        return Check("pool", False, f"pool '{pool.name}' has no limit", "none", str(pool.used))
    if facts.slots > pool.slots:
        text = f"it needs {facts.slots} slots, and pool '{pool.name}' has {pool.slots}"
        return Check("pool_too_small", waits(facts), text, str(pool.slots), str(pool.used))
    full = pool.used + facts.slots > pool.slots
    text = f"pool '{pool.name}' is full: {use}" if full else f"pool '{pool.name}' has room: {use}"
    return Check("pool", full and waits(facts), text, str(pool.slots), str(pool.used))


def check_limits(facts: TaskFacts) -> Iterator[Check]:
    """Airflow's limits of the run and of the task."""
    waiting = waits(facts)
    limits = (
        ("max_active_tasks", facts.run_limit, "task instances of the run are active"),
        ("max_active_tis_per_dag", facts.task_limit, "instances of the task are active"),
        ("max_active_tis_per_dagrun", facts.task_run_limit, "instances of the task are active in the run"),
    )
    for name, limit, what in limits:
        yield limit_check(name, limit, waiting and limit.reached(0), "", what)


def check_parallelism(facts: TaskFacts) -> Iterator[Check]:
    """Airflow's limit of the cluster.

    An executor may take more than it has workers for (LocalExecutor of Airflow 3.3 does: it counts nothing as
    running), so the limit also holds who is queued while the others take all places.
    """
    queued = facts.state == "queued" and facts.parallelism.reached(-1)
    full = queued or (waits(facts) and facts.parallelism.reached(0))
    what = "task instances of the cluster are active"
    yield limit_check("parallelism", facts.parallelism, full, "it is queued" if queued else "", what)


def limit_check(name: str, limit: Limit, holds: bool, state: str, what: str) -> Check:
    """One limit with its value and its use."""
    if limit.most is None:
        return Check(name, False, f"{name} is not set", "none", str(limit.active))
    counted = f"{limit.active} of {limit.most} {what} ({name})"
    text = f"{state}: {counted}" if holds and state else counted
    return Check(name, holds, text, str(limit.most), str(limit.active))


def check_queued(facts: TaskFacts) -> Iterator[Check]:
    """Handed to the executor, and not picked up by a worker."""
    if facts.state != "queued":
        return
    since = f" since {moment(facts.queued_at)}" if facts.queued_at else ""
    where = facts.executor or "the default executor"
    yield Check("queued", True, f"it is queued on {where}{since}, and no worker has taken it yet")


def check_scheduled(facts: TaskFacts) -> Iterator[Check]:
    """Nothing holds it but the executor, which only its scheduler knows."""
    if facts.state == "scheduled":
        text = "it waits for the scheduler's next loop, or for room in the executor"
        yield Check("executor", True, text)


def waits(facts: TaskFacts) -> bool:
    """It is scheduled, so the limits of pools and concurrency decide."""
    return facts.state == "scheduled"


def moment(when: datetime | None) -> str:
    """A moment for people."""
    return f"{when:%Y-%m-%d %H:%M:%S} UTC" if when else "?"


RULES: tuple[Callable[[TaskFacts], Iterator[Check]], ...] = (
    check_dag,
    check_run,
    check_upstream,
    check_due,
    check_group,
    check_deferred,
    check_pool,
    check_limits,
    check_parallelism,
    check_scheduler,
    check_queued,
)
"""In the order in which a task instance meets them: the first that holds is the answer."""

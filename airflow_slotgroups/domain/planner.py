"""Who is let in, and why the others are not: a pure function of a snapshot (DESIGN rules 2 to 7)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from airflow_slotgroups.domain.reasons import Code, Reason
from airflow_slotgroups.domain.snapshot import UNLIMITED, Group, RunKey, Snapshot, TaskKey, Waiter
from airflow_slotgroups.domain.states import Kind, Mode, Strategy


@dataclass
class Tally:
    """What this plan itself lets in; Airflow's limits count it on top of what is active."""

    runs: Counter[RunKey] = field(default_factory=Counter)
    tasks: Counter[TaskKey] = field(default_factory=Counter)
    task_runs: Counter[tuple[RunKey, str]] = field(default_factory=Counter)

    def add(self, waiter: Waiter) -> None:
        """Count a waiter that is let in; an acquire never runs and takes no place in any limit."""
        if waiter.kind is Kind.SECTION:
            return
        self.runs[waiter.run] += 1
        self.tasks[waiter.task] += 1
        self.task_runs[waiter.run, waiter.task_id] += 1


@dataclass
class Plan:
    """The decision on one snapshot.

    :param grants: waiters to let in, best first.
    :param reasons: for every waiter looked at, by request id.
    :param passes: how often the head was passed by this plan, by request id.
    :param free: slots left (None: no limit).
    :param tally: what it lets in, as Airflow's limits count it.
    :param head: the eligible waiter that did not fit, if there is one.
    :param starved_runs: runs at their limit because of this plan's own grants; with
    :param starved_tasks: tasks, and
    :param starved_task_runs: tasks within a run, whose other waiters need not be looked at.
    """

    free: int | None
    tally: Tally = field(default_factory=Tally)
    grants: list[Waiter] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)
    passes: Counter[int] = field(default_factory=Counter)
    head: Waiter | None = None
    starved_runs: set[RunKey] = field(default_factory=set)
    starved_tasks: set[TaskKey] = field(default_factory=set)
    starved_task_runs: set[tuple[RunKey, str]] = field(default_factory=set)

    def has_room_behind(self, group: Group) -> bool:
        """Tell whether a waiter behind those looked at might be let in as well."""
        if group.mode not in (Mode.ACTIVE, Mode.BYPASS) or self.free == 0:
            return False
        return self.head is None or may_pass(group, self.head, self)


def plan(snapshot: Snapshot, so_far: Plan | None = None) -> Plan:
    """Decide on every waiter of a snapshot, in the order of the queue.

    A request that can not start by itself is passed over and keeps its place. The first one that could start
    but does not fit is the head: under `strict` all slots are kept for it, under `backfill` a bounded number
    may pass.

    :param so_far: the plan of the waiters before these, which is gone on with: a long queue is planned part by
        part, each waiter once.
    """
    result = so_far or Plan(free=free_slots(snapshot.group, snapshot.used))
    for waiter in snapshot.waiters:
        reason = why_not_startable(waiter, snapshot, result) or why_no_room(waiter, snapshot, result)
        if reason is None:
            let_in(waiter, result)
        result.reasons[waiter.id] = reason or Reason(Code.NEXT_IN, "is let in now")
    return result


def free_slots(group: Group, used: int) -> int | None:
    """Slots that may still be granted: None without a limit, 0 while an overdraft is paid back."""
    if group.size == UNLIMITED or group.mode is Mode.BYPASS:
        return None
    return max(0, group.size - used)


def why_not_startable(waiter: Waiter, snapshot: Snapshot, result: Plan) -> Reason | None:
    """Name what would hold the task even if the group had room (rule 6); not even force passes it."""
    return (
        why_not_itself(waiter, snapshot)
        or why_not_team(waiter)
        or why_not_dag(waiter)
        or why_over_limit(waiter, result)
    )


def why_not_itself(waiter: Waiter, snapshot: Snapshot) -> Reason | None:
    """What holds the request itself."""
    if not waiter.scheduled:
        return Reason(Code.NOT_WAITING, "the task instance waits no longer")
    if waiter.suspended:
        return Reason(Code.SUSPENDED, "suspended by hand")
    if waiter.not_before is not None and waiter.not_before > snapshot.now:
        seconds = int((waiter.not_before - snapshot.now).total_seconds()) + 1
        return Reason(Code.PUT_OFF, f"{waiter.notice or 'it was put off'}; next attempt in {seconds} s")
    return None


def why_not_team(waiter: Waiter) -> Reason | None:
    """The pool of a team serves that team's DAGs alone (multi-team mode)."""
    if waiter.pool_team is None or waiter.pool_team == waiter.dag_team:
        return None
    owner = f"team '{waiter.dag_team}'" if waiter.dag_team else "no team"
    return Reason(
        Code.WRONG_TEAM,
        f"the pool belongs to team '{waiter.pool_team}', the DAG '{waiter.dag_id}' to {owner}",
    )


def why_not_dag(waiter: Waiter) -> Reason | None:
    """What holds the whole DAG or run."""
    if not waiter.dag_exists:
        return Reason(
            Code.RUN_NOT_RUNNING, f"DAG '{waiter.dag_id}' is gone: the scheduler starts none of its tasks"
        )
    if waiter.dag_paused:
        return Reason(Code.DAG_PAUSED, f"DAG '{waiter.dag_id}' is paused")
    if waiter.run_state != "running":
        return Reason(Code.RUN_NOT_RUNNING, f"the run is {waiter.run_state or 'gone'}, not running")
    return None


def why_over_limit(waiter: Waiter, result: Plan) -> Reason | None:
    """Airflow's own limits; an acquire never runs, so that none of them touches a section."""
    if waiter.kind is Kind.SECTION:
        return None
    tally = result.tally
    if waiter.run_limit.reached(tally.runs[waiter.run]):
        result.starved_runs.add(waiter.run)
        return limit_reason(Code.MAX_ACTIVE_TASKS, waiter.run_limit.most, "of its run are active")
    if waiter.task_limit.reached(tally.tasks[waiter.task]):
        result.starved_tasks.add(waiter.task)
        return limit_reason(Code.MAX_ACTIVE_TIS_PER_DAG, waiter.task_limit.most, "of this task are active")
    task_run = (waiter.run, waiter.task_id)
    if waiter.task_run_limit.reached(tally.task_runs[task_run]):
        result.starved_task_runs.add(task_run)
        most = waiter.task_run_limit.most
        return limit_reason(Code.MAX_ACTIVE_TIS_PER_DAGRUN, most, "of this task are active in the run")
    return None


def limit_reason(code: Code, most: int | None, what: str) -> Reason:
    """Name the limit by the word that the DAG author knows it by."""
    return Reason(code, f"{code} is reached: {most} task instances {what}")


def why_no_room(waiter: Waiter, snapshot: Snapshot, result: Plan) -> Reason | None:
    """What of the group holds a waiter that could start; a forced one asks for nothing but the pool."""
    group = snapshot.group
    if not group.pool_exists:
        return Reason(
            Code.POOL_MISSING,
            f"pool '{group.pool}' is missing: make it again in Admin → Pools, or dissolve the group",
        )
    if waiter.forced:
        return None
    return why_shut(snapshot) or why_too_wide(waiter, group) or why_full(waiter, group, result)


def why_shut(snapshot: Snapshot) -> Reason | None:
    """A group that lets nobody in at all."""
    group = snapshot.group
    if group.mode is Mode.PAUSED:
        return Reason(Code.GROUP_PAUSED, "the slot group is paused")
    if group.mode is Mode.DISSOLVING:
        return Reason(Code.DISSOLVING, "the slot group is being dissolved")
    if group.admits_from is not None and group.admits_from > snapshot.now:
        return Reason(Code.SETTLING, "the pool was adopted a moment ago; the queue opens within seconds")
    return None


def why_too_wide(waiter: Waiter, group: Group) -> Reason | None:
    """A request wider than the group is never the head, or it would block the queue for ever (S22)."""
    if group.size == UNLIMITED or group.mode is Mode.BYPASS or waiter.slots <= group.size:
        return None
    return Reason(Code.TOO_WIDE, f"can never run: needs {waiter.slots}, pool has {group.size}")


def why_full(waiter: Waiter, group: Group, result: Plan) -> Reason | None:
    """Rule 5: the head waits for its slots, and the others wait behind it or pass."""
    head = result.head
    if result.free is not None and waiter.slots > result.free:
        if head is None:
            result.head = waiter
        return Reason(Code.NO_ROOM, f"needs {waiter.slots}, {result.free} free")
    if head is None:
        return None
    if may_pass(group, head, result):
        result.passes[head.id] += 1
        return None
    return Reason(
        Code.BEHIND_HEAD,
        f"slots are kept for {head.dag_id}.{head.task_id}, which needs {head.slots}",
        dag_id=head.dag_id,
        unnamed=f"slots are kept for one before it, which needs {head.slots}",
    )


def may_pass(group: Group, head: Waiter, result: Plan) -> bool:
    """Tell whether one more request may pass the head."""
    return group.strategy is Strategy.BACKFILL and head.passes + result.passes[head.id] < group.max_passes


def let_in(waiter: Waiter, result: Plan) -> None:
    """Book a grant: its slots and its place in Airflow's limits."""
    if result.free is not None:
        result.free = max(0, result.free - waiter.slots)
    result.tally.add(waiter)
    result.grants.append(waiter)

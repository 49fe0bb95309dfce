"""What holds for every plan, whatever the snapshot (DESIGN rule 2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_slotgroups.domain.planner import Plan, plan
from airflow_slotgroups.domain.reasons import Code
from airflow_slotgroups.domain.snapshot import UNLIMITED, Group, Limit, Snapshot, Waiter
from airflow_slotgroups.domain.states import Kind, Mode, Strategy

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
MOMENTS = st.sampled_from([None, NOW - timedelta(seconds=1), NOW + timedelta(seconds=1)])
RUNS, TASKS = ("r1", "r2", "r3"), ("t", "u")

limits = st.builds(Limit, st.integers(0, 3), st.none() | st.integers(1, 4))
seldom = st.integers(0, 9).map(lambda number: number == 0)

groups = st.builds(
    Group,
    pool=st.just("p"),
    size=st.just(UNLIMITED) | st.integers(0, 8),
    mode=st.sampled_from([Mode.ACTIVE] * 4 + list(Mode)),
    strategy=st.sampled_from(Strategy),
    max_passes=st.integers(1, 4),
    admits_from=MOMENTS,
    pool_exists=st.just(True) | seldom.map(lambda no: not no),
)


@st.composite
def queues(draw: st.DrawFn) -> tuple[Waiter, ...]:
    """Waiters of a few runs and tasks; those of one run (or task) share its limit, as they do in Airflow."""
    run_limits = {run: draw(limits) for run in RUNS}
    task_limits = {task: draw(limits) for task in TASKS}
    task_run_limits = {(run, task): draw(limits) for run in RUNS for task in TASKS}
    queue = []
    for number in range(draw(st.integers(0, 12))):
        run, task = draw(st.sampled_from(RUNS)), draw(st.sampled_from(TASKS))
        queue.append(
            Waiter(
                id=number,
                dag_id="d",
                run_id=run,
                task_id=task,
                map_index=number,
                kind=Kind.SECTION if draw(seldom) else Kind.TASK,
                slots=draw(st.integers(1, 4)),
                suspended=draw(seldom),
                forced=draw(seldom),
                passes=draw(st.integers(0, 4)),
                not_before=draw(MOMENTS) if draw(seldom) else None,
                scheduled=not draw(seldom),
                dag_paused=draw(seldom),
                run_state="queued" if draw(seldom) else "running",
                run_limit=run_limits[run],
                task_limit=task_limits[task],
                task_run_limit=task_run_limits[run, task],
                pool_team="a" if draw(seldom) else None,
            )
        )
    return tuple(queue)


snapshots = st.builds(Snapshot, groups, st.integers(0, 10), queues(), st.just(NOW))
many = settings(max_examples=120, deadline=None, print_blob=True)


def free_before(snapshot: Snapshot) -> float:
    """Slots that may be granted, in the words of the design."""
    if snapshot.group.size == UNLIMITED or snapshot.group.mode is Mode.BYPASS:
        return float("inf")
    return max(0, snapshot.group.size - snapshot.used)


def could_start(waiter: Waiter, grants: list[Waiter], now: datetime) -> bool:
    """Rule 6 in the words of the design, once the grants of the plan run as well."""
    asks = waiter.scheduled and not waiter.suspended and (waiter.not_before or now) <= now
    serves = waiter.pool_team in (None, waiter.dag_team)
    if not (asks and serves and not waiter.dag_paused and waiter.run_state == "running"):
        return False
    running = [one for one in grants if one.kind is Kind.TASK]
    return waiter.kind is Kind.SECTION or not (
        waiter.run_limit.reached(sum(one.run == waiter.run for one in running))
        or waiter.task_limit.reached(sum(one.task == waiter.task for one in running))
        or waiter.task_run_limit.reached(
            sum((one.run, one.task_id) == (waiter.run, waiter.task_id) for one in running)
        )
    )


def is_open(group: Group) -> bool:
    return (
        group.pool_exists
        and group.mode in (Mode.ACTIVE, Mode.BYPASS)
        and (group.admits_from is None or group.admits_from <= NOW)
    )


def stands_behind_a_closed_head(waiter: Waiter, snapshot: Snapshot, result: Plan) -> bool:
    """The slots are kept for the head before it: always by `strict`, by `backfill` after so many passes."""
    head = result.head
    if head is None or snapshot.waiters.index(head) > snapshot.waiters.index(waiter):
        return False
    passed = head.passes + result.passes[head.id]
    return snapshot.group.strategy is Strategy.STRICT or passed >= snapshot.group.max_passes


@many
@given(snapshots)
def test_grants_never_exceed_the_free_slots_unless_forced(snapshot: Snapshot) -> None:
    grants = plan(snapshot).grants

    assert sum(one.slots for one in grants if not one.forced) <= free_before(snapshot)


@many
@given(snapshots)
def test_a_free_slot_is_never_left_idle_while_somebody_could_use_it(snapshot: Snapshot) -> None:
    result = plan(snapshot)

    for waiter in snapshot.waiters:
        left_out = waiter not in result.grants and could_start(waiter, result.grants, snapshot.now)
        fits = result.free is None or waiter.slots <= result.free
        if left_out and fits and is_open(snapshot.group):
            assert stands_behind_a_closed_head(waiter, snapshot, result)


@many
@given(snapshots)
def test_a_forced_one_that_could_start_is_let_in(snapshot: Snapshot) -> None:
    result = plan(snapshot)

    for waiter in snapshot.waiters:
        if waiter.forced and snapshot.group.pool_exists and waiter not in result.grants:
            assert not could_start(waiter, result.grants, snapshot.now)


@many
@given(snapshots)
def test_a_closed_group_lets_only_forced_ones_in(snapshot: Snapshot) -> None:
    if not is_open(snapshot.group):
        assert all(one.forced for one in plan(snapshot).grants)


@many
@given(snapshots)
def test_every_waiter_gets_exactly_one_reason(snapshot: Snapshot) -> None:
    result = plan(snapshot)

    assert list(result.reasons) == [waiter.id for waiter in snapshot.waiters]
    let_in = [number for number, reason in result.reasons.items() if reason.code is Code.NEXT_IN]
    assert let_in == [one.id for one in result.grants]
    assert all(reason.text for reason in result.reasons.values())


@many
@given(snapshots)
def test_airflows_limits_are_kept(snapshot: Snapshot) -> None:
    tasks = [one for one in plan(snapshot).grants if one.kind is Kind.TASK]

    for limit, more in [
        *((one.run_limit, sum(other.run == one.run for other in tasks)) for one in tasks),
        *((one.task_limit, sum(other.task == one.task for other in tasks)) for one in tasks),
    ]:
        assert limit.most is None or limit.active + more <= limit.most


@many
@given(snapshots)
def test_strict_lets_nobody_past_the_head_but_the_forced(snapshot: Snapshot) -> None:
    strict = replace(snapshot, group=replace(snapshot.group, strategy=Strategy.STRICT))
    result = plan(strict)

    if result.head is not None:
        behind = strict.waiters[strict.waiters.index(result.head) :]
        assert all(one.forced for one in result.grants if one in behind)
    assert not result.passes


@many
@given(snapshots)
def test_nobody_is_passed_more_often_than_allowed(snapshot: Snapshot) -> None:
    for number, times in plan(snapshot).passes.items():
        assert snapshot.waiters[number].passes + times <= snapshot.group.max_passes


@many
@given(snapshots)
def test_the_same_snapshot_gives_the_same_plan(snapshot: Snapshot) -> None:
    assert plan(snapshot) == plan(snapshot)


@many
@given(snapshots, st.integers(0, 12))
def test_waiters_further_behind_change_nothing_for_those_before(snapshot: Snapshot, seen: int) -> None:
    """The store reads the queue in batches and plans anew with each."""
    first, whole = plan(replace(snapshot, waiters=snapshot.waiters[:seen])), plan(snapshot)

    assert first.reasons == {number: whole.reasons[number] for number in first.reasons}
    assert whole.grants[: len(first.grants)] == first.grants
    if not first.has_room_behind(snapshot.group):
        later = Counter(one.forced for one in whole.grants[len(first.grants) :])
        assert later[False] == 0

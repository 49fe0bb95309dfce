"""The planner: one table keyed by a sentence, for every rule of section 4 of the design that it decides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_slotgroups.domain.planner import Plan, plan
from airflow_slotgroups.domain.reasons import Code, Reason
from airflow_slotgroups.domain.snapshot import UNLIMITED, Group, Limit, Snapshot, Waiter
from airflow_slotgroups.domain.states import Kind, Mode, Strategy

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)

NEXT = (Code.NEXT_IN, "is let in now")
PAUSED = (Code.GROUP_PAUSED, "the slot group is paused")
DAG_PAUSED = (Code.DAG_PAUSED, "DAG 'd' is paused")
SUSPENDED = (Code.SUSPENDED, "suspended by hand")
NOT_WAITING = (Code.NOT_WAITING, "the task instance waits no longer")
MISSING = (Code.POOL_MISSING, "pool 'p' is missing: make it again in Admin → Pools, or dissolve the group")

Expected = tuple[Code, str]


def no_room(needs: int, free: int) -> Expected:
    return Code.NO_ROOM, f"needs {needs}, {free} free"


def too_wide(needs: int, size: int) -> Expected:
    return Code.TOO_WIDE, f"can never run: needs {needs}, pool has {size}"


def behind(head: int, needs: int) -> Expected:
    return Code.BEHIND_HEAD, f"slots are kept for d.t{head}, which needs {needs}"


def run_full(most: int) -> Expected:
    return Code.MAX_ACTIVE_TASKS, (
        f"max_active_tasks is reached: {most} task instances of its run are active"
    )


def task_full(most: int) -> Expected:
    return Code.MAX_ACTIVE_TIS_PER_DAG, (
        f"max_active_tis_per_dag is reached: {most} task instances of this task are active"
    )


def task_full_in_run(most: int) -> Expected:
    return Code.MAX_ACTIVE_TIS_PER_DAGRUN, (
        f"max_active_tis_per_dagrun is reached: {most} task instances of this task are active in the run"
    )


def group(size: int = 1, **settings: Any) -> Group:
    return Group("p", size, **settings)


def waiter(number: int, slots: int = 1, **settings: Any) -> Waiter:
    """Request `number` of task `t<number>`, which could start."""
    values: dict[str, Any] = {"dag_id": "d", "run_id": "r", "task_id": f"t{number}", "slots": slots}
    return Waiter(id=number, **values | settings)


@dataclass(frozen=True)
class Case:
    """A snapshot, who is let in, and what the others are told.

    :param others: the answer to each waiter that is not let in; the granted ones get `NEXT`.
    """

    group: Group
    waiters: list[Waiter]
    grants: list[int]
    others: dict[int, Expected] = field(default_factory=dict)
    used: int = 0
    passes: dict[int, int] = field(default_factory=dict)


BACKFILL: dict[str, Any] = {"strategy": Strategy.BACKFILL}
SOON = NOW + timedelta(seconds=30)

ORDER_AND_CAPACITY = {
    "an empty queue grants nothing": Case(group(3), [], []),
    "waiters go in the order of the queue until the slots are used up": Case(
        group(2), [waiter(3), waiter(1), waiter(2)], [3, 1], {2: no_room(1, 0)}
    ),
    "slots in use are not granted again": Case(
        group(3), [waiter(1), waiter(2)], [1], {2: no_room(1, 0)}, used=2
    ),
    "the waiter that does not fit is told how many are free": Case(
        group(2), [waiter(1, 2)], [], {1: no_room(2, 1)}, used=1
    ),
    "a wide one and narrow ones share the slots (S21)": Case(
        group(24), [waiter(1, 12), waiter(2, 12), waiter(3, 16)], [1, 2], {3: no_room(16, 0)}
    ),
    "a group that has shrunk to nothing lets nobody in": Case(group(0), [waiter(1)], [], {1: too_wide(1, 0)}),
    "a group without a limit lets everybody in": Case(
        group(UNLIMITED), [waiter(1, 500), waiter(2, 500)], [1, 2], used=10_000
    ),
    "an overdraft is paid back before the next grant (S23)": Case(
        group(1), [waiter(1)], [], {1: no_room(1, 0)}, used=5
    ),
    "an overdraft just paid back is no free slot yet": Case(
        group(2), [waiter(1)], [], {1: no_room(1, 0)}, used=2
    ),
    "the first slot below the size is granted again": Case(
        group(2), [waiter(1), waiter(2)], [1], {2: no_room(1, 0)}, used=1
    ),
}

STRICT_AND_BACKFILL = {
    "strict keeps freed slots for the head (S04)": Case(
        group(2),
        [waiter(1, 2), waiter(2), waiter(3)],
        [],
        {1: no_room(2, 1), 2: behind(1, 2), 3: behind(1, 2)},
        1,
    ),
    "strict: one that is too wide for what is left is told so, not who the head is": Case(
        group(4),
        [waiter(1, 4), waiter(2, 3), waiter(3)],
        [],
        {1: no_room(4, 2), 2: no_room(3, 2), 3: behind(1, 4)},
        2,
    ),
    "backfill lets smaller ones pass": Case(
        group(3, **BACKFILL), [waiter(1, 3), waiter(2)], [2], {1: no_room(3, 1)}, used=2, passes={1: 1}
    ),
    "backfill: each one that passes counts": Case(
        group(4, **BACKFILL), [waiter(1, 4), waiter(2), waiter(3)], [2, 3], {1: no_room(4, 2)}, 2, {1: 2}
    ),
    "backfill: the bound holds within one plan": Case(
        group(4, max_passes=1, **BACKFILL),
        [waiter(1, 4), waiter(2), waiter(3)],
        [2],
        {1: no_room(4, 2), 3: behind(1, 4)},
        2,
        {1: 1},
    ),
    "backfill: passes of earlier plans count": Case(
        group(2, max_passes=3, **BACKFILL),
        [waiter(1, 2, passes=3), waiter(2)],
        [],
        {1: no_room(2, 1), 2: behind(1, 2)},
        1,
    ),
    "backfill: one more pass is left": Case(
        group(2, max_passes=3, **BACKFILL),
        [waiter(1, 2, passes=2), waiter(2)],
        [2],
        {1: no_room(2, 1)},
        1,
        {1: 1},
    ),
    "backfill: only the head is protected, not the next wide one": Case(
        group(3, **BACKFILL),
        [waiter(1, 3), waiter(2, 2), waiter(3)],
        [3],
        {1: no_room(3, 1), 2: no_room(2, 1)},
        2,
        {1: 1},
    ),
    "before the head nobody passes": Case(
        group(3, **BACKFILL), [waiter(1), waiter(2, 3), waiter(3)], [1, 3], {2: no_room(3, 2)}, passes={2: 1}
    ),
    "a waiter wider than the group can never run, and blocks nobody (S22)": Case(
        group(2), [waiter(1, 4), waiter(2)], [2], {1: too_wide(4, 2)}
    ),
    "a waiter that was too wide goes when the group has grown (S22)": Case(group(4), [waiter(1, 4)], [1]),
    "one that can not start is no head, whatever its width": Case(
        group(2), [waiter(1, 2, dag_paused=True), waiter(2)], [2], {1: DAG_PAUSED}, used=1
    ),
}

MODES = {
    "a paused group lets nobody in (S46)": Case(
        group(5, mode=Mode.PAUSED), [waiter(1), waiter(2)], [], {1: PAUSED, 2: PAUSED}
    ),
    "a DAG that is gone starts nothing, and blocks nobody": Case(
        group(2),
        [waiter(1, 2, dag_exists=False), waiter(2)],
        [2],
        {1: (Code.RUN_NOT_RUNNING, "DAG 'd' is gone: the scheduler starts none of its tasks")},
    ),
    "a paused group still says what holds the task itself": Case(
        group(5, mode=Mode.PAUSED), [waiter(1, dag_paused=True)], [], {1: DAG_PAUSED}
    ),
    "bypass lifts the limit (S47)": Case(
        group(1, mode=Mode.BYPASS), [waiter(1), waiter(2, 7), waiter(3)], [1, 2, 3], used=9
    ),
    "bypass does not lift what holds the task itself": Case(
        group(1, mode=Mode.BYPASS), [waiter(1, suspended=True), waiter(2)], [2], {1: SUSPENDED}
    ),
    "a group that is being dissolved lets nobody in": Case(
        group(5, mode=Mode.DISSOLVING),
        [waiter(1)],
        [],
        {1: (Code.DISSOLVING, "the slot group is being dissolved")},
    ),
    "a group adopted a moment ago lets nobody in yet": Case(
        group(5, admits_from=NOW + timedelta(milliseconds=1)),
        [waiter(1)],
        [],
        {1: (Code.SETTLING, "the pool was adopted a moment ago; the queue opens within seconds")},
    ),
    "an adopted group lets in from that very moment": Case(group(5, admits_from=NOW), [waiter(1)], [1]),
    "without its pool nobody is let in (S73)": Case(
        group(5, pool_exists=False), [waiter(1), waiter(2)], [], {1: MISSING, 2: MISSING}
    ),
}

FORCED = {
    "a forced one goes over the capacity (S43)": Case(
        group(1), [waiter(1, forced=True), waiter(2)], [1], {2: no_room(1, 0)}, used=1
    ),
    "a forced one takes free slots like any other": Case(
        group(2), [waiter(1, forced=True), waiter(2), waiter(3)], [1, 2], {3: no_room(1, 0)}
    ),
    "a forced one wider than what is free leaves nothing": Case(
        group(2), [waiter(1, 2, forced=True), waiter(2)], [1], {2: no_room(1, 0)}, used=1
    ),
    "a forced one passes a head, and that is no pass": Case(
        group(2), [waiter(1, 2), waiter(2, forced=True)], [2], {1: no_room(2, 1)}, used=1
    ),
    "a forced one goes past pause": Case(
        group(1, mode=Mode.PAUSED), [waiter(1, forced=True), waiter(2)], [1], {2: PAUSED}
    ),
    "a forced one goes though wider than the group": Case(group(1), [waiter(1, 4, forced=True)], [1]),
    "a forced one of a paused DAG waits": Case(
        group(1), [waiter(1, forced=True, dag_paused=True)], [], {1: DAG_PAUSED}
    ),
    "a forced one that is suspended waits": Case(
        group(1), [waiter(1, forced=True, suspended=True)], [], {1: SUSPENDED}
    ),
    "a forced one whose run is at its limit waits": Case(
        group(1), [waiter(1, forced=True, run_limit=Limit(4, 4))], [], {1: run_full(4)}
    ),
    "a forced one at its task's limit waits": Case(
        group(1), [waiter(1, forced=True, task_limit=Limit(1, 1))], [], {1: task_full(1)}
    ),
    "a forced one without a pool waits": Case(
        group(1, pool_exists=False), [waiter(1, forced=True)], [], {1: MISSING}
    ),
}

ONLY_WHAT_CAN_START = {
    "one that waits no longer is not let in": Case(
        group(1), [waiter(1, scheduled=False), waiter(2)], [2], {1: NOT_WAITING}
    ),
    "a suspended one is passed over": Case(
        group(1), [waiter(1, suspended=True), waiter(2)], [2], {1: SUSPENDED}
    ),
    "one that was put off waits until its time, and says why": Case(
        group(1),
        [waiter(1, not_before=SOON, notice="the scheduler did not start it"), waiter(2)],
        [2],
        {
            1: (
                Code.PUT_OFF,
                "the scheduler did not start it; next attempt in 31 s",
            )
        },
    ),
    "one that was put off goes at its time": Case(group(1), [waiter(1, not_before=NOW)], [1]),
    "a paused DAG is passed over and keeps its place (S07)": Case(
        group(1), [waiter(1, dag_paused=True), waiter(2), waiter(3)], [2], {1: DAG_PAUSED, 3: no_room(1, 0)}
    ),
    "an unpaused DAG is next (S07)": Case(group(1), [waiter(1), waiter(3)], [1], {3: no_room(1, 0)}),
    "a run that is queued starts nothing": Case(
        group(1),
        [waiter(1, run_state="queued")],
        [],
        {1: (Code.RUN_NOT_RUNNING, "the run is queued, not running")},
    ),
    "a run that is gone starts nothing": Case(
        group(1), [waiter(1, run_state=None)], [], {1: (Code.RUN_NOT_RUNNING, "the run is gone, not running")}
    ),
    "the run's max_active_tasks is reached (S06)": Case(
        group(9),
        [waiter(1, run_limit=Limit(1, 1)), waiter(2, run_id="other", run_limit=Limit(0, 1))],
        [2],
        {1: run_full(1)},
    ),
    "the plan's own grants count for max_active_tasks": Case(
        group(9), [waiter(n, run_limit=Limit(1, 3)) for n in (1, 2, 3)], [1, 2], {3: run_full(3)}
    ),
    "a limit above what is active holds nobody": Case(group(9), [waiter(1, run_limit=Limit(2, 3))], [1]),
    "max_active_tis_per_dag counts over all runs": Case(
        group(9),
        [
            waiter(1, task_id="t", run_id="r1", task_limit=Limit(0, 1)),
            waiter(2, task_id="t", run_id="r2", task_limit=Limit(0, 1)),
            waiter(3, task_id="u", run_id="r1", task_limit=Limit(0, 1)),
        ],
        [1, 3],
        {2: task_full(1)},
    ),
    "mapped tasks of one task share its limit (S75)": Case(
        group(4),
        [waiter(n, task_id="t", map_index=n, task_limit=Limit(0, 1)) for n in (1, 2, 3, 4)],
        [1],
        {n: task_full(1) for n in (2, 3, 4)},
    ),
    "max_active_tis_per_dagrun counts within its run": Case(
        group(9),
        [
            waiter(1, task_id="t", run_id="r1", task_run_limit=Limit(0, 1)),
            waiter(2, task_id="t", run_id="r1", map_index=1, task_run_limit=Limit(0, 1)),
            waiter(3, task_id="t", run_id="r2", task_run_limit=Limit(0, 1)),
        ],
        [1, 3],
        {2: task_full_in_run(1)},
    ),
    "tasks of one name in two DAGs have nothing in common": Case(
        group(9),
        [
            waiter(1, task_id="t", task_limit=Limit(0, 1), task_run_limit=Limit(0, 1), run_limit=Limit(0, 1)),
            waiter(
                2,
                dag_id="e",
                task_id="t",
                task_limit=Limit(0, 1),
                task_run_limit=Limit(0, 1),
                run_limit=Limit(0, 1),
            ),
        ],
        [1, 2],
    ),
    "a pool of a team serves that team's DAGs": Case(
        group(9),
        [
            waiter(1, pool_team="a", dag_team="a"),
            waiter(2, pool_team="a", dag_team="b"),
            waiter(3, pool_team="a"),
        ],
        [1],
        {
            2: (Code.WRONG_TEAM, "the pool belongs to team 'a', the DAG 'd' to team 'b'"),
            3: (Code.WRONG_TEAM, "the pool belongs to team 'a', the DAG 'd' to no team"),
        },
    ),
    "a pool of no team serves all": Case(group(9), [waiter(1, dag_team="b")], [1]),
    "the reason of the task itself comes before the group's": Case(
        group(1), [waiter(1, 4, scheduled=False, suspended=True, dag_paused=True)], [], {1: NOT_WAITING}
    ),
}

SECTION: dict[str, Any] = {"kind": Kind.SECTION}

SECTIONS = {
    "Airflow's limits never touch a section": Case(
        group(9),
        [waiter(1, run_limit=Limit(4, 4), task_limit=Limit(4, 4), task_run_limit=Limit(4, 4), **SECTION)],
        [1],
    ),
    "a section of a paused DAG waits": Case(
        group(9), [waiter(1, dag_paused=True, **SECTION)], [], {1: DAG_PAUSED}
    ),
    "a section of a run that is not running waits": Case(
        group(9),
        [waiter(1, run_state="failed", **SECTION)],
        [],
        {1: (Code.RUN_NOT_RUNNING, "the run is failed, not running")},
    ),
    "a section in the pool of another team waits": Case(
        group(9),
        [waiter(1, pool_team="a", dag_team="b", **SECTION)],
        [],
        {1: (Code.WRONG_TEAM, "the pool belongs to team 'a', the DAG 'd' to team 'b'")},
    ),
    "a suspended section waits": Case(group(9), [waiter(1, suspended=True, **SECTION)], [], {1: SUSPENDED}),
    "a section needs its slots like any other": Case(
        group(2), [waiter(1, 2, **SECTION)], [], {1: no_room(2, 1)}, used=1
    ),
    "a section that is let in uses up none of its run's limit": Case(
        group(9), [waiter(1, **SECTION), waiter(2, run_limit=Limit(0, 1))], [1, 2]
    ),
}

CASES = ORDER_AND_CAPACITY | STRICT_AND_BACKFILL | MODES | FORCED | ONLY_WHAT_CAN_START | SECTIONS


def decide(case: Case) -> Plan:
    return plan(Snapshot(case.group, case.used, tuple(case.waiters), NOW))


@pytest.mark.parametrize("case", [pytest.param(case, id=sentence) for sentence, case in CASES.items()])
def test_plan(case: Case) -> None:
    result = decide(case)

    assert [one.id for one in result.grants] == case.grants
    expected = dict.fromkeys(case.grants, NEXT) | case.others
    assert {number: (reason.code, reason.text) for number, reason in result.reasons.items()} == expected
    assert dict(result.passes) == case.passes


def test_every_code_stands_in_the_table() -> None:
    named = {code for case in CASES.values() for code, _ in case.others.values()} | {Code.NEXT_IN}

    assert named == set(Code)


def test_a_head_is_passed_a_bounded_number_of_times_over_many_plans() -> None:
    """Twenty narrow tasks keep one of two slots busy; the store adds the passes of each plan (S04)."""
    head, narrow = waiter(0, 2), [waiter(n) for n in range(1, 21)]
    backfill = group(2, max_passes=3, **BACKFILL)
    passed = 0
    while True:
        result = plan(Snapshot(backfill, 1, (replace(head, passes=passed), *narrow), NOW))
        if not result.grants:
            break
        narrow = [one for one in narrow if one not in result.grants]
        passed += result.passes[head.id]

    assert passed == 3
    assert len(narrow) == 17
    assert plan(Snapshot(backfill, 0, (replace(head, passes=passed), *narrow), NOW)).grants[0].id == head.id


@pytest.mark.parametrize(
    ("case", "runs", "tasks", "task_runs"),
    [
        pytest.param(Case(group(9), [waiter(1, run_limit=Limit(1, 1))], []), 1, 0, 0, id="run"),
        pytest.param(Case(group(9), [waiter(1, task_limit=Limit(1, 1))], []), 0, 1, 0, id="task"),
        pytest.param(
            Case(group(9), [waiter(1, task_run_limit=Limit(1, 1))], []), 0, 0, 1, id="task in a run"
        ),
        pytest.param(Case(group(9), [waiter(1)], []), 0, 0, 0, id="none"),
    ],
)
def test_a_plan_names_what_it_has_starved(case: Case, runs: int, tasks: int, task_runs: int) -> None:
    result = decide(case)

    assert [len(result.starved_runs), len(result.starved_tasks), len(result.starved_task_runs)] == [
        runs,
        tasks,
        task_runs,
    ]


ROOM_BEHIND = {
    "free slots and nobody kept waiting": (Case(group(2), [waiter(1)], []), True),
    "all slots granted": (Case(group(1), [waiter(1)], []), False),
    "strict behind a head": (Case(group(2), [waiter(1, 2)], [], used=1), False),
    "backfill with passes left": (Case(group(2, **BACKFILL), [waiter(1, 2)], [], used=1), True),
    "backfill with none left": (
        Case(group(2, max_passes=1, **BACKFILL), [waiter(1, 2, passes=1)], [], used=1),
        False,
    ),
    "a group without a limit": (Case(group(UNLIMITED), [waiter(1)], []), True),
    "bypass": (Case(group(1, mode=Mode.BYPASS), [waiter(1)], [], used=5), True),
    "a paused group": (Case(group(5, mode=Mode.PAUSED), [waiter(1)], []), False),
}


@pytest.mark.parametrize(
    ("case", "expected"), [pytest.param(*row, id=sentence) for sentence, row in ROOM_BEHIND.items()]
)
def test_room_behind(case: Case, expected: bool) -> None:
    assert decide(case).has_room_behind(case.group) is expected


def test_a_reason_prints_as_its_sentence_and_its_code_as_its_word() -> None:
    reason = Reason(Code.NO_ROOM, "needs 2, 1 free")

    assert str(reason) == "needs 2, 1 free"
    assert f"{reason.code}" == "no_room"

"""The answer to "why does my task not run?": what holds it first, in one sentence."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_slotgroups.domain.explain import GroupFacts, PastFacts, PoolFacts, TaskFacts, explain
from airflow_slotgroups.domain.snapshot import Limit

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
LATER = NOW + timedelta(minutes=5)
WIDE = PoolFacts("p", slots=2)
IN_GROUP = {"pool": PoolFacts("p", slots=0, group="p")}

SENTENCES: dict[str, dict[str, Any]] = {
    "DAG 'dag' is paused": {"dag_paused": True},
    "the run is due at 2026-01-01 12:05:00 UTC": {"run_state": "queued", "run_after": LATER, "state": None},
    "the run is queued: 2 of 2 runs of the DAG are running (max_active_runs)": {
        "run_state": "queued",
        "runs": Limit(2, 2),
        "state": None,
    },
    "the run is queued, not running": {"run_state": "queued", "runs": Limit(1, 2), "state": None},
    "the run is failed, not running": {"run_state": "failed"},
    "the run is gone, not running": {"run_state": None},
    "waits for upstream: a (running), b[3] (not scheduled yet)": {
        "state": None,
        "upstream": (("a", "running"), ("b[3]", "not scheduled yet")),
        "unmet": ("Trigger Rule: not yet",),
    },
    "waits for upstream: " + ", ".join(f"u{n} (queued)" for n in range(10)) + " and 2 more": {
        "state": None,
        "upstream": tuple((f"u{n}", "queued") for n in range(12)),
    },
    "Trigger Rule: no": {"state": None, "unmet": ("Trigger Rule: no",)},
    "its retry is due at 2026-01-01 12:05:00 UTC (try 2)": {
        "state": "up_for_retry",
        "due_at": LATER,
        "try_number": 2,
    },
    "its next look is due at 2026-01-01 12:05:00 UTC (try 1)": {
        "state": "up_for_reschedule",
        "due_at": LATER,
        "try_number": 1,
    },
    "waits in slot group 'p', place 3, 2 ahead: needs 1, 0 free": IN_GROUP
    | {"group": GroupFacts("p", "waiting", "needs 1, 0 free", 3, 2)},
    "waits in slot group 'p', place 1, 0 ahead: the slot group is paused": IN_GROUP
    | {"group": GroupFacts("p", "waiting", "the slot group is paused", 1)},
    "waits in slot group 'p': the coordinator has not seen it yet": IN_GROUP
    | {"group": GroupFacts("p", "unseen", "the coordinator has not seen it yet")},
    "waits in slot group 'p', place 1, 0 ahead: needs 2, 1 free": IN_GROUP
    | {"state": "deferred", "group": GroupFacts("p", "waiting", "needs 2, 1 free", 1)},
    "it is deferred on some.Trigger": {"state": "deferred", "trigger": "some.Trigger"},
    "it is deferred on some.Trigger, and no triggerer is alive": {
        "state": "deferred",
        "trigger": "some.Trigger",
        "triggerer_alive": False,
    },
    "pool 'p' does not exist: make it in Admin → Pools, or name another in the DAG": {
        "pool": PoolFacts("p", exists=False)
    },
    "pool 'p' belongs to team 'red', the DAG to no team": {"pool": PoolFacts("p", team="red")},
    "pool 'p' belongs to team 'red', the DAG to team 'blue'": {
        "pool": PoolFacts("p", team="red"),
        "dag_team": "blue",
    },
    "it needs 3 slots, and pool 'p' has 2": {"pool": WIDE, "slots": 3},
    "pool 'p' is full: 1 of 2 slots in use": {"pool": PoolFacts("p", slots=2, used=1), "slots": 2},
    "16 of 16 task instances of the run are active (max_active_tasks)": {"run_limit": Limit(16, 16)},
    "1 of 1 instances of the task are active (max_active_tis_per_dag)": {"task_limit": Limit(1, 1)},
    "1 of 1 instances of the task are active in the run (max_active_tis_per_dagrun)": {
        "task_run_limit": Limit(1, 1)
    },
    "32 of 32 task instances of the cluster are active (parallelism)": {"parallelism": Limit(32, 32)},
    "it is queued: 33 of 32 task instances of the cluster are active (parallelism)": {
        "state": "queued",
        "parallelism": Limit(33, 32),
    },
    "it is queued on the default executor, and no worker has taken it yet": {
        "state": "queued",
        "parallelism": Limit(32, 32),
    },
    "no scheduler is alive": {"scheduler_alive": False},
    "it is queued on the default executor since 2026-01-01 12:00:00 UTC, and no worker has taken it yet": {
        "state": "queued",
        "queued_at": NOW,
    },
    "it waits for the scheduler's next loop, or for room in the executor": {},
    "nothing holds it: the scheduler takes it in its next loop": {"state": None},
    "it is running since 2026-01-01 12:00:00 UTC on worker-1": {
        "state": "running",
        "started_at": NOW,
        "hostname": "worker-1",
        "dag_paused": True,
    },
    "it has ended: upstream_failed": {"state": "upstream_failed"},
    "it has ended: success; in slot group 'wh' it waited 247 s, was started by force and held its slots for 2 s": {
        "state": "success",
        "run_state": "success",
        "past": PastFacts("wh", "forced", "ended", 247.2, 2.1),
    },
    "it has ended: failed; in slot group 'wh' it waited 10 s, as long as its max_wait allows, and was never let in": {
        "state": "failed",
        "past": PastFacts("wh", None, "expired", 10.0, None),
    },
    "it has ended: skipped; in slot group 'wh' it waited 3 s and was never let in": {
        "state": "skipped",
        "past": PastFacts("wh", None, "left", 3.0, None),
    },
}


def facts(**given: Any) -> TaskFacts:
    """A scheduled task that nothing holds, but for what is given."""
    named = {"dag_id": "dag", "run_id": "run", "task_id": "task", "map_index": -1, "state": "scheduled"}
    return TaskFacts(**{**named, "now": NOW, **given})


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_first_sentence(sentence: str) -> None:
    """The one thing that holds it now."""
    assert explain(facts(**SENTENCES[sentence])).sentence == sentence


def test_what_it_meets_first_is_the_answer() -> None:
    """A paused DAG comes before all others, the group before Airflow's limits."""
    group = IN_GROUP | {"group": GroupFacts("p", "waiting", "needs 1, 0 free", 1)}
    everything = group | {"dag_paused": True, "parallelism": Limit(1, 1), "scheduler_alive": False}
    assert explain(facts(**everything)).name == "dag_paused"
    assert explain(facts(**everything | {"dag_paused": False})).name == "slot_group"
    assert [check.name for check in explain(facts(**everything)).checks if check.holds] == [
        "dag_paused",
        "slot_group",
        "parallelism",
        "scheduler",
    ]


def test_every_limit_is_listed_with_its_value_and_its_use() -> None:
    """Also those that do not hold it."""
    found = {check.name: check for check in explain(facts(pool=WIDE, runs=Limit(1, 16))).checks}
    assert (found["max_active_runs"].value, found["max_active_runs"].use) == ("16", "1")
    assert (found["pool"].value, found["pool"].use, found["pool"].text) == (
        "2",
        "0",
        "pool 'p' has room: 0 of 2 slots in use",
    )
    assert found["max_active_tis_per_dag"].text == "max_active_tis_per_dag is not set"
    assert not any(check.holds for check in explain(facts()).checks if check.name != "executor")


def test_the_executor_holds_what_nothing_else_does() -> None:
    missing = explain(facts(pool=PoolFacts("p", exists=False)))
    assert [check.name for check in missing.checks if check.holds] == ["pool_missing"]


def test_who_is_ahead_and_who_holds_is_told() -> None:
    """As far as the reader may hear it."""
    group = GroupFacts("p", "waiting", "needs 1, 0 free", 2, 1, "other.a", "other.b and 1 more")
    texts = [check.text for check in explain(facts(group=group)).checks]
    assert "ahead of it: other.a" in texts
    assert "slots are held by: other.b and 1 more" in texts

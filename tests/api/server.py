"""Serves Airflow's API, the package mounted in it, with an auth manager, roles, DAGs and queues for the tests.

A process of its own: an auth manager and a database are global to one. No scheduler and no coordinator run
beside it, so what stands in the tables stays as it is.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

PASSWORDS = {name: f"pw-{name}" for name in ("viewer", "user", "op", "admin", "half")}
GROUP = "wh"
QUIET = "quiet"
"""As `wh`, and no test changes anything in it."""


def main(kind: str, port: int) -> None:
    """Make tables, people and queues, then serve."""
    from airflow import settings
    from airflow.utils.db import initdb

    settings.initialize()
    initdb()
    if kind == "simple":
        passwords = Path(os.environ["AIRFLOW_HOME"], "simple_auth_manager_passwords.json.generated")
        passwords.write_text(json.dumps(PASSWORDS))
    else:
        make_people()
    make_queues()
    serve(port)


def make_people() -> None:
    """Users of the FAB auth manager: one of each default role, and one who may change dag_a alone."""
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    with get_application_builder() as builder:
        manager = builder.sm
        manager.sync_roles()
        half = manager.add_role("Half")
        for action, resource in HALF:
            manager.add_permission_to_role(half, manager.create_permission(action, resource))
        for name, password in PASSWORDS.items():
            role = manager.find_role(name.capitalize())
            assert manager.add_user(name, name, name, f"{name}@example.org", role, password=password)


HALF = (
    ("can_read", "Pools"),
    ("can_edit", "Pools"),
    ("can_create", "Pools"),
    ("can_delete", "Pools"),
    ("can_read", "DAG Runs"),
    ("can_edit", "DAG Runs"),
    ("can_read", "Task Instances"),
    ("can_edit", "Task Instances"),
    ("can_read", "Audit Logs"),
    ("can_read", "DAG:dag_a"),
    ("can_edit", "DAG:dag_a"),
)


def make_queues() -> None:
    """Two groups of 2 slots: dag_a holds one, dag_b waits for two at the head, dag_a waits behind."""
    from airflow import settings

    from airflow_slotgroups.coordinator import steps
    from tests.integration.support.clock import FakeClock
    from tests.integration.support.dags import make_dag, pin_runs, write_dags
    from tests.integration.support.databases import Database
    from tests.integration.support.world import World

    # How long a discovery takes must not decide on what the tests see.
    steps.SLOW_DISCOVERY = float("inf")
    clock = FakeClock()
    clock.now = datetime.now(timezone.utc) - timedelta(minutes=10)
    database = Database("sqlite", settings.SQL_ALCHEMY_CONN, settings.engine, settings.NonScopedSession)
    write_dags(
        database,
        [
            make_dag(
                "dag_a", {"holder": {"pool": QUIET}, "after": {"pool": f"{QUIET}.running"}, "other": {}}
            ),
            make_dag("dag_b", {"secret_wide": {"pool": QUIET, "pool_slots": 2}}),
        ],
    )
    world = World(database, clock)
    world.pool("ordinary", 3)
    for name, run_id in ((GROUP, "run"), (QUIET, "quiet_run")):
        world.group(name, 2)
        for dag_id in ("dag_a", "dag_b"):
            world.run(dag_id, run_id)
        world.task("holder", name, "dag_a", run_id)
        world.rounds(2)
        world.task("secret_wide", name, "dag_b", run_id, pool_slots=2, priority_weight=9)
        world.task("after", name, "dag_a", run_id)
        world.round()
    pin_runs(database)
    with database.session() as session:
        session.add_all(past(number, clock.now) for number in range(12))


def past(number: int, now: datetime) -> Any:
    """An ended request, of one of three DAGs, one of which is gone."""
    from airflow_slotgroups.models import SlotRequest

    end = now - timedelta(seconds=number)
    return SlotRequest(
        pool=QUIET,
        kind="task",
        dag_id=("dag_a", "dag_b", "dag_gone")[number % 3],
        run_id=f"past_{number}",
        task_id="secret_past" if number % 3 else "load",
        map_index=-1,
        try_number=1,
        slots=1,
        priority=1,
        order_major=-1,
        order_minor=0,
        state="released",
        live=None,
        admission="queue",
        suspended=False,
        forced=False,
        passes=0,
        was_queued=True,
        enqueued_at=end - timedelta(seconds=100),
        arrived_at=end - timedelta(seconds=100),
        granted_at=end - timedelta(seconds=60),
        ended_at=end,
        end_reason="ended",
        comment="secret_comment" if number % 3 else "plain",
    )


def serve(port: int) -> None:
    """Run the app as `airflow api-server` does."""
    import uvicorn
    from airflow.api_fastapi.app import cached_app

    uvicorn.run(cached_app(apps="core"), host="127.0.0.1", port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

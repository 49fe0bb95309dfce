"""Random histories against the real store: the invariants of the design after every step."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_slotgroups.airflow_core import locks
from tests.integration.conftest import backends
from tests.integration.support.clock import FakeClock
from tests.integration.support.dags import write_dags
from tests.integration.support.databases import Database
from tests.integration.support.history import History
from tests.integration.support.history_dags import history_dags

EXAMPLES = {"sqlite": 40, "postgresql": 14}
STEPS = 50


def soon(connection: Any, _record: object) -> None:
    """Everything happens in one thread: whoever finds a row locked need not wait for it."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '20ms'")
    connection.commit()


@pytest.fixture
def impatient(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The database, on which nobody waits for a lock."""
    monkeypatch.setattr(locks.limit_waiting, "__defaults__", (20,))
    monkeypatch.setattr("airflow_slotgroups.services.transaction.PATIENCE", 0.0)
    monkeypatch.setattr("airflow_slotgroups.services.transaction.PAUSE", 0.0)
    monkeypatch.setattr("airflow_slotgroups.coordinator.steps.SLOW_DISCOVERY", float("inf"))
    if database.backend == "postgresql":
        sa.event.listen(database.engine, "connect", soon)
        database.engine.dispose()
    yield database
    if database.backend == "postgresql":
        sa.event.remove(database.engine, "connect", soon)
        database.engine.dispose()


@pytest.mark.parametrize("database", backends("sqlite", "postgresql"), indirect=True)
def test_random_histories(impatient: Database, clock: FakeClock, record_property: Any) -> None:
    write_dags(impatient, history_dags())
    number = int(os.environ.get("SLOTGROUPS_TEST_SEED") or random.randrange(2**32))
    machine = seed(number)(type("History", (History,), {"database": impatient, "clock": clock, "steps": 0}))
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=EXAMPLES[impatient.backend],
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
                phases=[p for p in Phase if p is not Phase.shrink and p is not Phase.explain],
            ),
        )
    finally:
        what = f"steps of random history on {impatient.backend}, SLOTGROUPS_TEST_SEED={number}"
        record_property(what, machine.steps)

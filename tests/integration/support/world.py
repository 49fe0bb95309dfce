"""DAGs, runs, task instances, pools and groups in given states, and the product's own work on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.utils.types import DagRunTriggeredByType, DagRunType

from airflow_slotgroups.airflow_core.pools import PoolRow, put_pool, read_pools
from airflow_slotgroups.coordinator.cycle import Cycle, CycleResult
from airflow_slotgroups.coordinator.sweep import Sweep
from airflow_slotgroups.domain.names import running_pool
from airflow_slotgroups.domain.states import RequestState
from airflow_slotgroups.models import SlotGroup, SlotRequest
from airflow_slotgroups.services.groups import GroupChange, set_group
from tests.integration.support.clock import FakeClock
from tests.integration.support.databases import Database

TI = TaskInstance
BUNDLE = "testing"
WHO = "tester"


class Key(NamedTuple):
    """A task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    def __str__(self) -> str:
        return f"{self.dag_id}.{self.run_id}.{self.task_id}[{self.map_index}]"


def is_key(key: Key) -> sa.ColumnElement[bool]:
    """Condition on `task_instance`."""
    return sa.and_(
        TI.dag_id == key.dag_id,
        TI.run_id == key.run_id,
        TI.task_id == key.task_id,
        TI.map_index == key.map_index,
    )


class World:
    """Builds what a test needs, and runs the product on it.

    :param lease: of the cycle.
    """

    def __init__(self, database: Database, clock: FakeClock, lease: timedelta = timedelta(minutes=1)) -> None:
        self.database = database
        self.clock = clock
        self.cycle = Cycle(database.session, clock, lease)
        self.sweep = Sweep(database.session, self.cycle.desk.limits, clock)
        self.runs = 0

    # --- What Airflow has.

    def dag(self, dag_id: str, *, max_active_tasks: int = 16, paused: bool = False) -> None:
        """Insert a DAG."""
        with self.database.session() as session:
            if session.get(DagBundleModel, BUNDLE) is None:
                session.add(DagBundleModel(name=BUNDLE))
                session.flush()
            dag = DagModel(dag_id=dag_id, bundle_name=BUNDLE, is_paused=paused, is_stale=False)
            dag.max_active_tasks = max_active_tasks
            dag.max_active_runs = 16
            dag.has_task_concurrency_limits = False
            dag.max_consecutive_failed_dag_runs = 0
            session.add(dag)

    def run(self, dag_id: str, run_id: str, *, state: str = "running", test: bool = False) -> None:
        """Insert a run; a later one has a later logical date.

        :param test: as made by `dag.test()`.
        """
        self.runs += 1
        moment = self.clock.now - timedelta(days=1) + timedelta(minutes=self.runs)
        with self.database.session() as session:
            run = DagRun(
                dag_id=dag_id,
                run_id=run_id,
                run_type=DagRunType.MANUAL,
                logical_date=moment,
                run_after=moment,
                state=state,
                triggered_by=DagRunTriggeredByType.TEST if test else DagRunTriggeredByType.UI,
            )
            session.add(run)

    def tasks(self, keys: Sequence[Key], pool: str, **values: Any) -> Sequence[Key]:
        """Insert task instances, scheduled unless said otherwise; each a millisecond after the one before."""
        rows = []
        for number, key in enumerate(keys):
            scheduled_at = self.clock.now + timedelta(milliseconds=number)
            row = {
                **key._asdict(),
                "pool": pool,
                "pool_slots": 1,
                "priority_weight": 1,
                "state": "scheduled",
                "try_number": 1,
                "max_tries": 3,
                "scheduled_dttm": scheduled_at,
                "operator": "PythonOperator",
                "queue": "default",
            }
            rows.append({**row, **values})
        with self.database.session() as session:
            session.execute(sa.insert(TI.__table__), rows)
        self.clock.advance(len(keys) / 1000)
        return keys

    def task(self, task_id: str, pool: str, dag_id: str = "dag", run_id: str = "run", **values: Any) -> Key:
        """Insert one task instance."""
        key = Key(dag_id, run_id, task_id, values.pop("map_index", -1))
        self.tasks([key], pool, **values)
        return key

    def pool(
        self, name: str, slots: int, *, include_deferred: bool = False, description: str | None = None
    ) -> None:
        """Insert or overwrite an ordinary pool, as `airflow pools set` does."""
        with self.database.session() as session:
            exists = name in read_pools(session, [name])
            put_pool(session, PoolRow(name, slots, include_deferred, description or ""), exists=exists)

    def drop_pool(self, name: str) -> None:
        """Delete a pool as Admin → Pools does."""
        with self.database.session() as session:
            session.execute(sa.delete(Pool).where(Pool.pool == name))

    def group(self, name: str, slots: int, **change: Any) -> None:
        """Make or change a group as people do."""
        set_group(name, GroupChange(slots=slots, **change), who=WHO)

    def set_ti(self, key: Key, **values: Any) -> None:
        """Write columns of a task instance."""
        with self.database.session() as session:
            session.execute(sa.update(TI.__table__).where(is_key(key)).values(**values))

    def set_tis(self, **values: Any) -> None:
        """Write columns of all task instances."""
        with self.database.session() as session:
            session.execute(sa.update(TI.__table__).values(**values))

    def set_group(self, name: str, **values: Any) -> None:
        """Write columns of a group, as the levers of a later issue will."""
        with self.database.session() as session:
            session.execute(sa.update(SlotGroup).where(SlotGroup.pool == name).values(**values))

    def set_requests(self, **values: Any) -> None:
        """Write columns of all live requests."""
        with self.database.session() as session:
            session.execute(sa.update(SlotRequest).where(SlotRequest.live.is_(True)).values(**values))

    # --- What the product does.

    def round(self) -> CycleResult:
        """One cycle and one sweep, a moment later."""
        self.clock.advance()
        result = self.cycle.run()
        self.sweep.run()
        assert not result.errors
        return result

    def rounds(self, number: int) -> None:
        """Several of them."""
        for _ in range(number):
            self.round()

    # --- What stands in the tables.

    def ti(self, key: Key) -> Any:
        """Read a task instance as a row."""
        with self.database.session() as session:
            return session.execute(sa.select(TI.__table__).where(is_key(key))).one()

    def pool_of(self, key: Key) -> str:
        """The pool that a task instance is in."""
        return str(self.ti(key).pool)

    def pools(self, name: str) -> tuple[int | None, int | None]:
        """Slots of a group's two pools; None for one that is missing."""
        with self.database.session() as session:
            found = read_pools(session, [name, running_pool(name)])
        return tuple(found[p].slots if p in found else None for p in (name, running_pool(name)))  # type: ignore[return-value]

    def requests(self, key: Key | None = None, *states: RequestState) -> list[SlotRequest]:
        """Requests, of one task instance or all, in some states or all, by id."""
        query = sa.select(SlotRequest).order_by(SlotRequest.id)
        if key is not None:
            for column, value in key._asdict().items():
                query = query.where(getattr(SlotRequest, column) == value)
        if states:
            query = query.where(SlotRequest.state.in_([state.value for state in states]))
        with self.database.session() as session:
            return list(session.scalars(query))

    def state_of(self, key: Key) -> list[str]:
        """States of a task instance's requests, the oldest first."""
        return [request.state for request in self.requests(key)]

    def granted(self) -> list[str]:
        """Task ids that hold slots, in the order of their grants."""
        rows = self.requests(None, RequestState.GRANTED)
        return [row.task_id for row in sorted(rows, key=lambda row: (row.granted_at, row.id))]

    def waiting(self) -> list[str]:
        """Task ids that wait, in the order of the queue."""
        rows = self.requests(None, RequestState.WAITING)
        rows.sort(key=lambda row: (row.order_major, row.order_minor, row.id))
        return [row.task_id for row in rows]

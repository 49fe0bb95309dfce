"""What we rely on in Airflow's internals is as we believe, so that a new Airflow fails a test and not a user."""

from __future__ import annotations

import inspect
import json
from importlib.resources import files
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jsonschema  # type: ignore[import-untyped]  # has no annotations
import pytest
from airflow.cli import cli_config
from airflow.cli.commands import task_command
from airflow.cli.simple_table import AirflowConsole
from airflow.jobs.job import Job, JobState
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.listeners import hookimpl
from airflow.listeners.listener import get_listener_manager
from airflow.models import import_all_models
from airflow.models.dagbag import DBDagBag
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.models.trigger import handle_event_submit
from airflow.serialization.definitions.baseoperator import SerializedBaseOperator
from airflow.ti_deps.dependencies_states import ACTIVE_STATES, EXECUTION_STATES
from airflow.triggers.base import TaskFailedEvent, TaskSuccessEvent, TriggerEvent
from airflow.utils.db_manager import BaseDBManager
from airflow.utils.session import create_session
from airflow.utils.sqlalchemy import UtcDateTime, with_row_locks
from airflow.utils.state import DagRunState, State, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import Boolean, Index, Integer, String, UniqueConstraint, create_engine, event, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core import jobs, tables
from airflow_slotgroups.airflow_core.audit import write_audit
from airflow_slotgroups.airflow_core.tables import TI, DagModel, DagRun, Pool, bundle_team
from airflow_slotgroups.domain.lifecycle import HELD_STATES
from airflow_slotgroups.domain.names import MAX_NAME_LENGTH, running_pool
from airflow_slotgroups.listeners import start
from airflow_slotgroups.plugins.slotgroups import SlotGroupsPlugin
from airflow_slotgroups.provider import get_provider_info


def columns(model: Any) -> dict[str, Any]:
    """Columns of a table by name, with their types."""
    return {column.name: column.type for column in getattr(model, "__table__", model).columns}


def words(states: Any) -> set[str]:
    return {state.value for state in states}


# States


def test_airflow_counts_these_states_for_max_active_tasks() -> None:
    assert set(tables.COUNTED_FOR_RUN) == words(EXECUTION_STATES)


def test_airflow_counts_these_states_for_the_limits_of_a_task() -> None:
    assert set(tables.COUNTED_FOR_TASK) == words(ACTIVE_STATES)


def test_every_state_of_a_task_instance_has_its_place() -> None:
    """A state that Airflow adds must be thought about: does it hold a slot?"""
    ended = words(state for state in State.finished if state is not None)
    groups: list[set[str]] = [set(tables.HELD), set(tables.BETWEEN_TRIES), ended]

    assert set.union(*groups) == words(TaskInstanceState)
    assert sum(map(len, groups)) == len(TaskInstanceState)


def test_the_domain_names_the_same_states_as_the_tables() -> None:
    assert set(tables.HELD) == HELD_STATES
    assert DagRunState.RUNNING.value == tables.RUNNING_RUN == "running"


@pytest.mark.parametrize(("include_deferred", "more"), [(False, set()), (True, {"deferred"})])
def test_a_pool_counts_these_states(include_deferred: bool, more: set[str]) -> None:
    pool = Pool(pool="p", slots=1, include_deferred=include_deferred)

    assert words(pool.get_occupied_states()) == {"queued", "running"} | more


# Tables


def test_columns_of_a_task_instance() -> None:
    found = columns(TI)

    assert {"id", "dag_id", "run_id", "task_id", "map_index", "try_number", "state", "trigger_id"} <= set(
        found
    )
    assert isinstance(found["pool"], String)
    assert found["pool"].length == 256
    for name in ("pool_slots", "priority_weight", "map_index", "try_number"):
        assert isinstance(found[name], Integer), name
    for name in ("scheduled_dttm", "queued_dttm"):
        assert isinstance(found[name], UtcDateTime), name
    assert isinstance(found["next_method"], String)


def test_one_row_is_a_task_instance_whatever_its_try() -> None:
    constraints = [one for one in TI.__table__.constraints if isinstance(one, UniqueConstraint)]

    assert {frozenset(one.columns.keys()) for one in constraints} == {
        frozenset({"dag_id", "task_id", "run_id", "map_index"})
    }


def test_the_pool_of_a_task_instance_is_indexed() -> None:
    indexes: dict[str | None, Index] = {one.name: one for one in TI.__table__.indexes}

    assert list(indexes["ti_pool"].columns.keys()) == ["pool", "state", "priority_weight"]
    assert "ti_trigger_id" in indexes


def test_deleting_a_trigger_deletes_its_task_instance() -> None:
    """Why we never delete one."""
    [key] = TI.__table__.c.trigger_id.foreign_keys

    assert key.target_fullname == "trigger.id"
    assert key.ondelete == "CASCADE"


def test_columns_of_a_pool() -> None:
    found = columns(Pool)

    assert set(found) == {"id", "pool", "slots", "description", "include_deferred", "team_name"}
    assert found["pool"].length == len(running_pool("x" * MAX_NAME_LENGTH))
    assert Pool.DEFAULT_POOL_NAME == "default_pool"


def test_columns_of_a_dag() -> None:
    found = columns(DagModel)

    for name in ("is_paused", "has_task_concurrency_limits"):
        assert isinstance(found[name], Boolean), name
    assert isinstance(found["max_active_tasks"], Integer)
    assert DagModel.max_active_tasks.nullable is False
    assert {"dag_id", "bundle_name"} <= set(found)


def test_columns_of_a_run() -> None:
    assert {"dag_id", "run_id", "state", "logical_date", "triggered_by", "conf"} <= set(columns(DagRun))


def test_columns_of_teams() -> None:
    assert set(columns(bundle_team)) == {"dag_bundle_name", "team_name"}


def test_columns_of_the_audit_log() -> None:
    session = mock.Mock()
    write_audit(session, "set", who="ada", group="wh")
    [entry] = session.add.call_args.args

    assert {"event", "owner", "owner_display_name", "extra", "dttm"} <= set(columns(Log))
    assert (entry.event, entry.owner, entry.owner_display_name) == ("slotgroups.set", "ada", "ada")
    assert json.loads(entry.extra) == {"group": "wh"}


# Runs of dag.test()


def test_runs_of_dag_test_are_known_by_who_triggered_them() -> None:
    assert DagRunTriggeredByType.TEST.value == "test"
    query = tables.real_run()
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy's own
    sql = str(query.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    assert "dag_run.triggered_by IS NULL OR dag_run.triggered_by != 'TEST'" in sql
    assert "dag_run.run_id NOT LIKE " in sql
    # How a backslash is written in SQL text depends on the version of SQLAlchemy; as a parameter it is sent as it is.
    assert r"\_\_airflow\_temporary\_run\_%" in query.compile(dialect=dialect).params.values()


def test_temporary_runs_are_known_by_their_prefix() -> None:
    assert task_command._generate_temporary_run_id().startswith(tables.TEMPORARY_RUN_PREFIX)


# Locks and sessions


def test_row_locks_are_asked_for_like_this() -> None:
    parameters = inspect.signature(with_row_locks).parameters

    assert {"query", "session", "nowait", "skip_locked", "kwargs"} <= set(parameters)


def test_a_session_can_be_had_apart_from_the_threads_own() -> None:
    assert inspect.signature(create_session).parameters["scoped"].default is True


# The scheduler


def executed(statement: Any) -> dict[str, Any]:
    """The values that an UPDATE sets, by column."""
    return {column.name: getattr(value, "value", None) for column, value in statement._values.items()}


def test_a_task_stuck_in_queued_is_set_back_with_its_queued_moment_erased() -> None:
    """By that a holder is told from a sensor that comes again (S29, S32)."""
    session = mock.Mock(spec=Session)
    stuck = TaskInstance.__new__(TaskInstance)
    with mock.patch.object(TaskInstance, "filter_for_tis", return_value=TI.task_id == "t"):
        SchedulerJobRunner._reschedule_stuck_task(mock.Mock(), stuck, session)
    values = executed(session.execute.call_args.args[0])

    assert values["state"] == TaskInstanceState.SCHEDULED
    assert values["queued_dttm"] is None
    assert values["scheduled_dttm"] is not None
    assert "pool" not in values


def test_a_deferred_task_that_goes_on_is_scheduled_anew_with_its_next_method() -> None:
    waiting: Any = SimpleNamespace(
        next_kwargs=None, next_method="execute_complete", queued_dttm=1, scheduled_dttm=1, trigger_id=5
    )
    handle_event_submit(TriggerEvent({"a": 1}), task_instance=waiting, session=mock.Mock())

    assert waiting.state == TaskInstanceState.SCHEDULED
    assert waiting.trigger_id is None
    assert waiting.next_method == "execute_complete"
    assert waiting.queued_dttm == 1
    assert waiting.scheduled_dttm != 1


@pytest.mark.parametrize(
    ("kind", "state"),
    [(TaskSuccessEvent, TaskInstanceState.SUCCESS), (TaskFailedEvent, TaskInstanceState.FAILED)],
)
def test_an_event_can_end_a_task_without_a_worker(kind: Any, state: TaskInstanceState) -> None:
    assert handle_event_submit.dispatch(kind) is not handle_event_submit.dispatch(TriggerEvent)
    assert kind().task_instance_state == state


def test_clearing_sets_the_pool_to_what_the_dag_says_except_while_running() -> None:
    clearing, refreshing = inspect.getsource(clear_task_instances), inspect.getsource(TI.refresh_from_task)
    running, rest = clearing.split("ti.state = TaskInstanceState.RESTARTING", 1)

    assert "ti.state == TaskInstanceState.RUNNING" in running
    assert "refresh_from_task" not in running
    assert "ti.refresh_from_task(task" in rest
    assert "self.pool = pool_override or task.pool" in refreshing


def test_a_schedulers_job_is_known_by_its_type() -> None:
    assert SchedulerJobRunner.job_type == jobs.SCHEDULER == start.SCHEDULER
    assert JobState.RUNNING.value == "running"


def test_a_new_job_row_is_told_once_and_with_its_id() -> None:
    """What starts a coordinator; and its heartbeat, which looks after it, is an update of that row."""
    import_all_models()
    engine = create_engine("sqlite://")
    Job.__table__.create(engine)
    told: list[tuple[str, int]] = []
    listeners = {
        name: lambda _mapper, _connection, job, name=name: told.append((name, job.id))
        for name in ("after_insert", "after_update")
    }
    for name, listener in listeners.items():
        event.listen(Job, name, listener)
    try:
        with Session(engine) as session:
            job = Job.__new__(Job)
            Job.__mapper__.class_manager.setup_instance(job)
            job.job_type, job.state = jobs.SCHEDULER, JobState.RUNNING
            session.add(job)
            session.commit()
            job.state = JobState.SUCCESS
            session.commit()
            [(job_id,)] = session.execute(select(Job.id))
    finally:
        for name, listener in listeners.items():
            event.remove(Job, name, listener)
        engine.dispose()

    assert told == [("after_insert", job_id), ("after_update", job_id)]


def test_a_heartbeat_writes_the_jobs_row_through_the_orm() -> None:
    source = inspect.getsource(Job.heartbeat)

    assert "self.latest_heartbeat = timezone.utcnow()" in source
    assert "session.merge(self)" in source


# Listeners and plugin


def test_on_starting_is_called_with_the_component() -> None:
    hook = get_listener_manager().hook.on_starting

    assert hook.spec is not None
    assert list(hook.spec.argnames) == ["component"]
    assert hookimpl.project_name == "airflow"


def test_the_plugin_is_one_that_airflow_takes() -> None:
    from airflow.plugins_manager import AirflowPlugin

    assert issubclass(SlotGroupsPlugin, AirflowPlugin)
    assert SlotGroupsPlugin.name == "slotgroups"
    listeners: Any = SlotGroupsPlugin.listeners
    hooks = get_listener_manager().pm.hook
    for listener in listeners:
        implemented = {name for name in dir(listener) if hasattr(getattr(listener, name), "airflow_impl")}
        assert implemented, listener
        assert all(hasattr(hooks, name) for name in implemented), listener


# DAGs


def test_a_serialized_dag_is_read_by_its_run() -> None:
    assert list(inspect.signature(DBDagBag.get_dag_for_run).parameters) == ["self", "dag_run", "session"]
    assert "load_op_links" in inspect.signature(DBDagBag).parameters


def test_a_serialized_task_has_its_own_limits() -> None:
    task = SerializedBaseOperator(task_id="t")

    assert task.max_active_tis_per_dag is None
    assert task.max_active_tis_per_dagrun is None


# Provider, tables, command line


def test_the_provider_info_is_valid() -> None:
    schema = json.loads((files("airflow") / "provider_info.schema.json").read_text(encoding="utf-8"))
    jsonschema.validators.validator_for(schema)(schema).validate(get_provider_info())

    assert {"config", "db-managers", "cli"} <= set(schema["properties"])


def test_a_db_manager_is_made_like_this() -> None:
    assert list(inspect.signature(BaseDBManager.__init__).parameters) == ["self", "session"]
    for name in (
        "get_alembic_config",
        "get_current_revision",
        "get_script_object",
        "_release_metadata_locks_if_needed",
    ):
        assert callable(getattr(BaseDBManager, name)), name
    assert isinstance(BaseDBManager.supports_table_dropping, bool)


def test_commands_are_described_like_this() -> None:
    assert {"name", "help", "func", "args"} <= set(cli_config.ActionCommand._fields)
    assert {"name", "help", "subcommands"} <= set(cli_config.GroupCommand._fields)
    for name in ("print_as_json", "print_as_yaml", "print_as"):
        assert callable(getattr(AirflowConsole, name)), name

"""Slots held over a whole section of a DAG (DESIGN section 5, rule 12)."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import Any, NoReturn

from airflow.sdk import DAG, BaseOperator, TaskGroup, TriggerRule
from airflow.sdk.definitions.context import Context
from airflow.triggers.base import StartTriggerArgs

from airflow_slotgroups.domain.errors import InvalidValueError, SectionError
from airflow_slotgroups.domain.names import SLOT_TRIGGER_PATH, running_pool
from airflow_slotgroups.operators.slot_args import slot_args
from airflow_slotgroups.triggers.slots import SlotTrigger

OWN_NAMES = {
    "pool_slots": "slots",
    "priority_weight": "priority",
    "weight_rule": "priority",
    "executor_config": "max_wait",
}
"""Arguments of every operator that an acquire has under a name of its own."""

NO_TIMEOUT = timedelta(0)
"""Not None: that is not serialized, and the scheduler would put `[core] default_task_execution_timeout` there."""


class AcquireSlotsOperator(BaseOperator):
    """Waits for slots and holds them over the tasks behind it, until a `ReleaseSlotsOperator` or the run's end.

    Deferrable, and deferred by the scheduler itself: it needs no worker, before or after. The coordinator ends
    it as success when it is its turn.

    :param pool: the slot group.
    :param slots: how many of its slots are held, at least 1.
    :param priority: bigger goes first; None leaves it to the default priority_weight.
    :param max_wait: the acquire fails when it has waited that long; None waits for ever.
    :raises InvalidNameError, InvalidValueError: when the DAG is parsed, for values that can not be.
    """

    start_from_trigger = True
    # A class attribute with no arguments: set on the instance, a mapped acquire would get none, and run on a
    # worker (DESIGN section 3). All data come from the task instance's row.
    start_trigger_args = StartTriggerArgs(
        trigger_cls=SLOT_TRIGGER_PATH,
        next_method="execute_complete",
        trigger_kwargs={},
        next_kwargs={},
        timeout=None,
    )

    def __init__(
        self,
        *,
        pool: str,
        slots: int = 1,
        priority: int | None = None,
        max_wait: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_own_names(kwargs)
        # Given even when empty: an executor_config in default_args is meant for tasks that run, and its max_wait
        # is not this one's.
        arguments = {
            "executor_config": {},
            **slot_args(pool, slots=slots, priority=priority, max_wait=max_wait),
        }
        super().__init__(**arguments, **kwargs)
        self.slots = slots
        self.is_setup = True
        # Waiting is no execution, and waits in no line but the group's (DESIGN section 3).
        self.execution_timeout = NO_TIMEOUT
        self.max_active_tis_per_dag = None
        self.max_active_tis_per_dagrun = None

    @classmethod
    def partial(cls, **kwargs: Any) -> NoReturn:
        """Refuse mapping: a section is mapped by its task group.

        :raises SectionError: always.
        """
        refuse_mapping(cls.__name__, kwargs.get("task_id"))

    def execute(self, context: Context) -> NoReturn:
        """Wait, where no scheduler has deferred it before: in `dag.test()`."""
        self.defer(trigger=SlotTrigger(), method_name="execute_complete")

    def execute_complete(self, context: Context, event: object = None) -> None:
        """Go on, inline; on a scheduler the task has ended already."""

    def prepare_template(self) -> None:
        """Check the DAG's sections; Airflow calls this when the whole DAG is known."""
        settle_once(self)


def refuse_own_names(given: dict[str, Any]) -> None:
    """Refuse an argument that would say a second time what one of the acquire's own says.

    :raises InvalidValueError: with the argument to use instead.
    """
    for name, own in OWN_NAMES.items():
        if name in given:
            raise InvalidValueError(name, given[name], f"give an AcquireSlotsOperator '{own}' instead")


def refuse_mapping(operator: str, task_id: object) -> NoReturn:
    """Refuse to map one end of a section without the other.

    :raises SectionError: always; the DAG may not be known here.
    """
    raise SectionError(
        f"{operator} '{task_id}' can not be mapped by itself",
        "put the section into a mapped task group: one hold for each map index",
    )


class ReleaseSlotsOperator(BaseOperator):
    """Ends the hold of the acquires before it: a teardown that needs no worker and no slot.

    It runs whether the tasks between failed or not, as every teardown does.
    """

    inherits_from_empty_operator = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.is_teardown = True
        self.trigger_rule = TriggerRule.ALL_DONE_SETUP_SUCCESS
        # With any of these Airflow would run it on a worker (`TaskInstance.is_task_schedulable`).
        self.on_execute_callback = []
        self.on_success_callback = []
        self.inlets = []
        self.outlets = []

    @classmethod
    def partial(cls, **kwargs: Any) -> NoReturn:
        """Refuse mapping: a section is mapped by its task group.

        :raises SectionError: always.
        """
        refuse_mapping(cls.__name__, kwargs.get("task_id"))

    def execute(self, context: Context) -> None:
        """Nothing to do: that it has ended is the sign."""

    def prepare_template(self) -> None:
        """Check the DAG's sections; Airflow calls this when the whole DAG is known."""
        settle_once(self)


class HoldSlots(TaskGroup):
    """A task group that holds slots from before its first task until after its last.

    :param group_id: as for any task group; its acquire and release are `<group_id>.acquire_slots` and
        `<group_id>.release_slots`.
    :param pool: the slot group.
    :param slots: how many of its slots are held, at least 1.
    :param priority: bigger goes first; None leaves it to the default priority_weight.
    :param max_wait: the section fails when it has waited that long; None waits for ever.
    :param kwargs: whatever a TaskGroup takes.
    """

    def __init__(
        self,
        group_id: str,
        *,
        pool: str,
        slots: int = 1,
        priority: int | None = None,
        max_wait: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        slot_args(pool, slots=slots, priority=priority, max_wait=max_wait)
        super().__init__(group_id, **kwargs)
        self.held: dict[str, Any] = {"pool": pool, "slots": slots, "priority": priority, "max_wait": max_wait}

    def __enter__(self) -> HoldSlots:
        """Begin the section with its acquire."""
        super().__enter__()
        with ExitStack() as left_open:
            left_open.push(super().__exit__)
            self.acquire = AcquireSlotsOperator(task_id="acquire_slots", **self.held)
            left_open.pop_all()
        return self

    def __exit__(self, error_type: Any, error: Any, trace: Any) -> None:
        """End the section with its release, and put all tasks between the two."""
        with ExitStack() as left_open:
            left_open.push(super().__exit__)
            if error_type is None:
                self.end()

    def end(self) -> None:
        """Add the release behind all tasks of the group."""
        inside = [task for task in self.iter_tasks() if task is not self.acquire]
        release = ReleaseSlotsOperator(task_id="release_slots")
        release.as_teardown(setups=self.acquire)
        enclose(self.acquire, inside, release)


def enclose(acquire: AcquireSlotsOperator, inside: list[Any], release: ReleaseSlotsOperator) -> None:
    """Put the acquire before the first tasks and the release behind the last.

    :raises SectionError: a first task has a trigger rule that no task behind a setup may have.
    """
    ids = {task.task_id for task in inside}
    for task in inside:
        if not ids & set(task.upstream_task_ids):
            check_first(acquire, task)
            acquire >> task
        if not ids & set(task.downstream_task_ids):
            task >> release


def check_first(acquire: AcquireSlotsOperator, task: Any) -> None:
    """Refuse what Airflow would refuse later without a name: an acquire is a setup task."""
    if not task.is_teardown and task.trigger_rule != TriggerRule.ALL_SUCCESS:
        raise SectionError(
            f"the section of '{acquire.task_id}' in DAG '{acquire.dag_id}' begins with '{task.task_id}',"
            f" which has trigger_rule '{TriggerRule(task.trigger_rule).value}'",
            "let it begin with a task that has 'all_success', an EmptyOperator if there is no other",
        )


def settle_once(task: BaseOperator) -> None:
    """Settle the sections of a task's DAG when Airflow comes to the first task of any."""
    ends = (AcquireSlotsOperator, ReleaseSlotsOperator)
    if task is next(one for one in task.dag.tasks if isinstance(one, ends)):
        settle_sections(task.dag)


def settle_sections(dag: DAG) -> None:
    """Pair acquires with releases, and refuse sections that would wait for themselves (rule 12).

    :raises SectionError: with the DAG, the tasks and the remedy.
    """
    for task in dag.tasks:
        if isinstance(task, ReleaseSlotsOperator):
            pair(task)
    for task in dag.tasks:
        if isinstance(task, AcquireSlotsOperator):
            check_section(task)


def pair(release: ReleaseSlotsOperator) -> None:
    """Make a release that is nobody's teardown that of the acquires before it that have none.

    :raises SectionError: there are none.
    """
    if any(isinstance(task, AcquireSlotsOperator) for task in release.upstream_list):
        return
    acquires = [
        task
        for task in release.get_flat_relatives(upstream=True)
        if isinstance(task, AcquireSlotsOperator) and not releases_of(task)
    ]
    if not acquires:
        raise SectionError(
            f"ReleaseSlotsOperator '{release.task_id}' of DAG '{release.dag_id}' has no AcquireSlotsOperator"
            " of its own before it",
            "write acquire >> ... >> release",
        )
    for acquire in acquires:
        acquire >> release


def releases_of(acquire: AcquireSlotsOperator) -> list[ReleaseSlotsOperator]:
    """The releases that end an acquire's hold."""
    return [task for task in acquire.downstream_list if isinstance(task, ReleaseSlotsOperator)]


def check_section(acquire: AcquireSlotsOperator) -> None:
    """Refuse what would wait for the section that it is in."""
    where = f"the section of '{acquire.task_id}' in DAG '{acquire.dag_id}'"
    for release in releases_of(acquire):
        if mapped_group(acquire) != mapped_group(release):
            raise SectionError(
                f"{where} ends with '{release.task_id}', which is not in the same mapped task group",
                "put both into one mapped task group, or both outside",
            )
    for task in tasks_of_section(acquire):
        if isinstance(task, AcquireSlotsOperator):
            raise SectionError(
                f"{where} has another section inside, '{task.task_id}'",
                "release the first before the second is acquired",
            )
        if asks_for(task, acquire.pool):
            raise SectionError(
                f"{where} holds slots of '{acquire.pool}', and its task '{task.task_id}' asks for more of them",
                "let the tasks inside name another pool",
            )
    for task in waited_for(acquire):
        if asks_for(task, acquire.pool):
            raise SectionError(
                f"{where} holds slots of '{acquire.pool}' until '{task.task_id}' has ended, which waits for"
                " slots of the same group",
                f"put '{task.task_id}' before the section, or let it name another pool",
            )


def asks_for(task: Any, pool: str) -> bool:
    """Tell whether a task needs slots of a group of its own."""
    return task.pool in (pool, running_pool(pool)) and not isinstance(task, ReleaseSlotsOperator)


def mapped_group(task: BaseOperator) -> str | None:
    """The id of the innermost mapped task group around a task; one release for many holds must not be."""
    group = task.get_closest_mapped_task_group()
    return group.group_id if group is not None else None


def waited_for(acquire: AcquireSlotsOperator) -> list[Any]:
    """The tasks that a section's end waits for though they are not in it: neither behind nor before its acquire."""
    inside = {task.task_id for task in tasks_of_section(acquire)}
    before = {acquire.task_id, *acquire.get_flat_relative_ids(upstream=True)}
    return [
        task
        for release in releases_of(acquire)
        for task in release.get_flat_relatives(upstream=True)
        if task.task_id not in inside | before
    ]


def tasks_of_section(acquire: AcquireSlotsOperator) -> list[Any]:
    """The tasks between an acquire and its releases; without a release, all behind it."""
    behind = acquire.get_flat_relatives(upstream=False)
    releases = releases_of(acquire)
    if not releases:
        return list(behind)
    before = set().union(*(release.get_flat_relative_ids(upstream=True) for release in releases))
    return [task for task in behind if task.task_id in before]

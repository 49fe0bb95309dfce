"""Is everything served? Each problem says what to do (DESIGN rule 13)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from airflow_slotgroups import __version__
from airflow_slotgroups.airflow_core.clock import utcnow
from airflow_slotgroups.airflow_core.config import CoordinatorPlace, coordinator_place
from airflow_slotgroups.airflow_core.sessions import new_session
from airflow_slotgroups.db_manager import check_tables
from airflow_slotgroups.domain.discretion import MaySee, told
from airflow_slotgroups.domain.errors import SlotGroupsError, TablesMissingError, quoted
from airflow_slotgroups.domain.names import UNLIMITED_POOL
from airflow_slotgroups.domain.planner import plan
from airflow_slotgroups.domain.snapshot import UNLIMITED, Snapshot
from airflow_slotgroups.domain.states import Mode
from airflow_slotgroups.services.transaction import read
from airflow_slotgroups.store.coordinators import is_alive, load_coordinators
from airflow_slotgroups.store.decisions import decide
from airflow_slotgroups.store.groups import StoredGroup, load_groups
from airflow_slotgroups.store.history import last_event
from airflow_slotgroups.store.queue import waiting_in, wider_than
from airflow_slotgroups.store.sections import orphaned_acquires
from airflow_slotgroups.store.sizes import edited_by_hand
from airflow_slotgroups.store.strays import unforced_in_unlimited, waiting_without_pool
from airflow_slotgroups.store.use import read_use

STALLED_AFTER = timedelta(minutes=1)


@dataclass(frozen=True)
class Problem:
    """Something that keeps tasks waiting, or may.

    :param where: the group, or what else it is about.
    :param pool: the pool that it is about; None when it is about all.
    :param unnamed: the text without names of DAGs; None when there are none in it.
    :param dag_id: the DAG that the text names; None when it may name any.
    """

    code: str
    where: str
    text: str
    remedy: str
    pool: str | None = None
    unnamed: str | None = None
    dag_id: str | None = None

    def text_for(self, may_see: MaySee) -> str:
        """Return the text as a reader may hear it."""
        return told(self.text, self.unnamed, self.dag_id, may_see)


def check() -> list[Problem]:
    """Look at tables, coordinators and groups."""
    with new_session() as session:
        try:
            check_tables(session)
        except TablesMissingError as error:
            return [Problem("tables", "database", error.message, error.remedy)]
        return list(check_all(session, utcnow()))


def coordinators_alive() -> int:
    """Count the coordinators that were heard of lately."""
    return read(lambda s: sum(is_alive(c, utcnow()) for c in load_coordinators(s)))


def check_all(session: Session, now: datetime) -> Iterator[Problem]:
    """Yield what is wrong."""
    yield from check_coordinators(session, now)
    groups = load_groups(session)
    for group in groups:
        yield from check_pools(group)
        yield from check_width(session, group)
        yield from check_progress(session, group, now)
    yield from check_acquires(session, groups)
    yield from check_missing_pools(session)
    yield from check_unlimited(session)


def check_coordinators(session: Session, now: datetime) -> Iterator[Problem]:
    """Somebody must let waiters in."""
    alive = [c for c in load_coordinators(session) if is_alive(c, now)]
    if not alive:
        yield no_coordinator()
    for coordinator in alive:
        where = f"coordinator {coordinator.hostname}:{coordinator.pid}"
        if coordinator.error:
            remedy = "see the log of the scheduler beside it"
            yield Problem("coordinator", where, coordinator.error, remedy, unnamed="its last cycle failed")
        if coordinator.version != __version__:
            text = f"runs version {coordinator.version}, this is {__version__}"
            yield Problem("version", where, text, "restart its scheduler")


def no_coordinator() -> Problem:
    """Say why nobody is served, and what to do about it."""
    text = "no coordinator is alive: nobody is let in"
    try:
        place = coordinator_place()
    except SlotGroupsError as error:
        return Problem("coordinator", "configuration", f"{text}; {error.message}", error.remedy)
    remedies = {
        CoordinatorPlace.SCHEDULER: "start the scheduler, or see its log: it starts the coordinator",
        CoordinatorPlace.EXTERNAL: "run 'airflow slotgroups coordinator'",
        CoordinatorPlace.OFF: "set [slotgroups] coordinator to 'scheduler' and restart the scheduler",
    }
    return Problem("coordinator", "coordinators", text, remedies[place])


def check_pools(group: StoredGroup) -> Iterator[Problem]:
    """The two pools must be there, and as we keep them."""
    name = group.name
    if group.pool is None:
        text = f"pool '{name}' is missing: its tasks can not run"
        remedy = (
            f"make it again with 'airflow pools set {quoted(name)} {group.row.slots} ...',"
            f" or give the group up with 'airflow slotgroups dissolve {quoted(name)}'"
        )
        yield Problem("pool_missing", name, text, remedy, name)
        return
    if group.mode is Mode.DISSOLVING:
        return
    if edited_by_hand(group):
        text = f"pool '{name}' was opened by hand to {group.pool.slots} slots"
        yield Problem(
            "pool_open",
            name,
            text,
            "a coordinator takes that as the size and closes it; see that one is alive",
            name,
        )
    if group.running is None:
        text = f"pool '{group.running_name}' is missing"
        yield Problem("pool_missing", name, text, "a coordinator makes it again; see that one is alive", name)


def check_width(session: Session, group: StoredGroup) -> Iterator[Problem]:
    """Who needs more slots than the group has waits for ever, unless somebody resizes it (S22)."""
    name, size = group.name, group.row.slots
    if size == UNLIMITED or group.mode is Mode.BYPASS:
        return
    number, widest = wider_than(session, name, size)
    if number:
        needs = "request needs" if number == 1 else "requests need"
        text = f"{number} waiting {needs} more slots than the group's {size}, the widest {widest}"
        remedy = (
            f"give it more with 'airflow slotgroups set {quoted(name)} {widest}', or ask for fewer in the DAG"
        )
        yield Problem("too_wide", name, text, remedy, name)


def check_progress(session: Session, group: StoredGroup, now: datetime) -> Iterator[Problem]:
    """A group with a queue, free slots and an eligible request must let it in."""
    since = group.row.stalled_since
    # The coordinator forgets it with its next decision, and makes none while nobody could be let in.
    if (
        since is not None
        and since < now - STALLED_AFTER
        and decide(session, group, now, enough=1).plan.grants
    ):
        text = f"requests can be let in since {since:%Y-%m-%d %H:%M:%S} UTC and are not"
        remedy = "see the scheduler's log; something keeps the task instances locked"
        yield Problem("stalled", group.name, text, remedy, group.name)
        return
    tasks = waiting_in(session, group.name, limit=200)
    used = read_use(session, [group.name])[group.name]
    first = next(
        iter(plan(Snapshot(group.planned(), used, tuple(t.waiter for t in tasks), now)).grants), None
    )
    if first is None or group.row.slots == UNLIMITED:
        return
    arrived = next(task.arrived_at for task in tasks if task.waiter.id == first.id)
    free_since = max(arrived, last_change(session, group))
    if free_since < now - STALLED_AFTER:
        what = "could be let in for over a minute and is not"
        yield Problem(
            "stalled",
            group.name,
            f"{first.dag_id}.{first.task_id} {what}",
            "see that a coordinator is alive, and its scheduler's log",
            group.name,
            unnamed=f"a task {what}",
            dag_id=first.dag_id,
        )


def check_acquires(session: Session, groups: Sequence[StoredGroup]) -> Iterator[Problem]:
    """An acquire whose pool is no slot group is let in by nobody (rule 14)."""
    for acquire in orphaned_acquires(session, [group.name for group in groups]):
        what = "waits for slots of no slot group"
        remedy = (
            f"make it one with 'airflow slotgroups adopt {quoted(acquire.pool)}', or name another in the DAG"
        )
        yield Problem(
            "no_group",
            acquire.pool,
            f"{acquire.dag_id}.{acquire.task_id} (run {acquire.run_id}) {what}",
            remedy,
            acquire.pool,
            unnamed=f"a section {what}",
            dag_id=acquire.dag_id,
        )


def check_missing_pools(session: Session) -> Iterator[Problem]:
    """A pool that tasks wait in and that does not exist lets nobody in: mistyped, or deleted with its group."""
    for pool, tasks in waiting_without_pool(session).items():
        yield Problem(
            "no_pool",
            pool,
            f"{tasks} task{'' if tasks == 1 else 's'} wait{'s' if tasks == 1 else ''} in pool '{pool}',"
            " which does not exist",
            f"make it with 'airflow slotgroups set {quoted(pool)} SLOTS', or name another in the DAG",
            pool,
        )


def check_unlimited(session: Session) -> Iterator[Problem]:
    """A task in the pool of forced starts that nobody has forced runs without any limit (rule 3)."""
    for stranger in unforced_in_unlimited(session):
        what = "names the pool of forced starts: it runs without a limit, and is counted nowhere"
        yield Problem(
            "unlimited",
            UNLIMITED_POOL,
            f"{stranger.dag_id}.{stranger.task_id} (run {stranger.run_id}) {what}",
            "name the slot group's own pool in the DAG",
            unnamed=f"a task {what}",
            dag_id=stranger.dag_id,
        )


def last_change(session: Session, group: StoredGroup) -> datetime:
    """When the group last let somebody in, got a slot back, or was changed."""
    return max(filter(None, (last_event(session, group.name), group.row.updated_at)))

"""Making, changing, adopting, dissolving and listing slot groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.audit import write_audit
from airflow_slotgroups.airflow_core.clock import utcnow
from airflow_slotgroups.airflow_core.pools import PoolRow, delete_pool, put_pool, read_pools
from airflow_slotgroups.airflow_core.tables import Pool
from airflow_slotgroups.domain.errors import (
    AlreadyGroupError,
    BusyError,
    DissolvingError,
    GroupInUseError,
    InvalidValueError,
    OrdinaryPoolError,
    UnknownGroupError,
    UnknownPoolError,
)
from airflow_slotgroups.domain.names import RUNNING_SUFFIX, check_group_name
from airflow_slotgroups.domain.order import MAX_AGEING_SECONDS
from airflow_slotgroups.domain.planner import free_slots
from airflow_slotgroups.domain.snapshot import UNLIMITED
from airflow_slotgroups.domain.states import Mode, Strategy
from airflow_slotgroups.models import SlotGroup
from airflow_slotgroups.services.transaction import read, transact
from airflow_slotgroups.store.adoption import GroupSettings, adopt_pool, dissolve_group
from airflow_slotgroups.store.groups import (
    StoredGroup,
    load_group,
    load_groups,
    lock_group,
    note_change,
    with_pools,
)
from airflow_slotgroups.store.queue import count_live, reorder
from airflow_slotgroups.store.sizes import edited_by_hand, keep_pools
from airflow_slotgroups.store.strays import unfinished_in
from airflow_slotgroups.store.use import read_use

MODE_ACTIONS = {Mode.ACTIVE: "resume", Mode.PAUSED: "pause", Mode.BYPASS: "bypass"}
"""The verb, in CLI and audit log, that leads to each mode."""

LARGEST = 2**31 - 1
"""What a column of 32 bits can hold."""

DEFAULT_POOL = Pool.DEFAULT_POOL_NAME


@dataclass(frozen=True)
class GroupChange:
    """What to change of a group; None leaves a setting as it is."""

    slots: int | None = None
    description: str | None = None
    strategy: Strategy | None = None
    max_passes: int | None = None
    ageing_seconds: int | None = None

    def check(self) -> None:
        """Refuse what no group can have.

        :raises InvalidValueError: a value is out of its range.
        """
        for setting in ("slots", "max_passes"):
            if (value := getattr(self, setting)) is not None and value > LARGEST:
                raise InvalidValueError(setting, value, f"give at most {LARGEST}")
        if self.slots is not None and self.slots < UNLIMITED:
            raise InvalidValueError("slots", self.slots, "give 0 or more, or -1 for no limit")
        if self.max_passes is not None and self.max_passes < 1:
            raise InvalidValueError("max_passes", self.max_passes, "give 1 or more, or use strategy 'strict'")
        if self.ageing_seconds is not None and not 0 <= self.ageing_seconds <= MAX_AGEING_SECONDS:
            raise InvalidValueError(
                "ageing_seconds",
                self.ageing_seconds,
                f"give 1 to {MAX_AGEING_SECONDS} seconds for a point of priority, or 0 for no ageing",
            )

    def settings(self) -> GroupSettings:
        """Return the settings of a new group."""
        new = GroupSettings()
        return GroupSettings(
            strategy=self.strategy or new.strategy,
            max_passes=new.max_passes if self.max_passes is None else self.max_passes,
            ageing_seconds=self.ageing_seconds or 0,
        )


@dataclass(frozen=True)
class GroupStatus:
    """A group as people see it.

    :param free: slots that can be granted, None without a limit.
    :param overdraft: slots in use above the size.
    """

    pool: str
    slots: int
    mode: Mode
    strategy: Strategy
    max_passes: int
    ageing_seconds: int
    description: str
    used: int
    free: int | None
    overdraft: int
    waiting: int
    holding: int
    notice: str | None


def list_groups() -> list[GroupStatus]:
    """Return all groups, by name."""
    return read(lambda session: [status_of(session, group) for group in load_groups(session)])


def get_group(name: str) -> GroupStatus:
    """Return one group.

    :raises UnknownGroupError: there is none; OrdinaryPoolError when it is an ordinary pool.
    """
    return read(lambda session: status_of(session, find_group(session, name)))


def find_group(session: Session, name: str) -> StoredGroup:
    """Read a group, or say what that name is instead."""
    try:
        return load_group(session, name)
    except UnknownGroupError:
        refuse_helper_pool(session, name)
        if name in read_pools(session, [name]):
            raise OrdinaryPoolError(name) from None
        raise


def status_of(session: Session, group: StoredGroup) -> GroupStatus:
    """Count what is in use and who waits."""
    used = read_use(session, [group.name])[group.name]
    live = count_live(session, group.name)
    row = group.row
    over = 0 if row.slots == UNLIMITED or group.mode is Mode.BYPASS else max(0, used - row.slots)
    return GroupStatus(
        pool=row.pool,
        slots=row.slots,
        mode=group.mode,
        strategy=Strategy(row.strategy),
        max_passes=row.max_passes,
        ageing_seconds=row.ageing_seconds,
        description=row.description or "",
        used=used,
        free=free_slots(group.planned(), used),
        overdraft=over,
        waiting=live.waiting,
        holding=live.holding,
        notice=row.notice,
    )


def set_group(name: str, change: GroupChange, *, who: str, comment: str | None = None) -> bool:
    """Make a group with its pools, or change one; as `airflow pools set` does with pools.

    :return: whether it was made.
    :raises OrdinaryPoolError: a pool of that name exists and is no group.
    :raises InvalidNameError, InvalidValueError: nothing was changed.
    """
    change.check()
    check_group_name(name)
    return transact(f"set slot group '{name}'", lambda s: set_in(s, name, change, who, comment))


def create_group(name: str, change: GroupChange, *, who: str, comment: str | None = None) -> None:
    """Make a group with its pools, and change none.

    :raises AlreadyGroupError, OrdinaryPoolError: the name is taken.
    :raises InvalidNameError, InvalidValueError: nothing was changed.
    """
    change.check()
    check_group_name(name)
    transact(f"make slot group '{name}'", lambda s: create_in(s, name, change, who, comment))


def create_in(session: Session, name: str, change: GroupChange, who: str, comment: str | None) -> None:
    """Refuse a name that is taken, else make the group."""
    if session.get(SlotGroup, name) is not None:
        raise already(name)
    make_group(session, name, change, who, comment, utcnow())


def change_existing(name: str, change: GroupChange, *, who: str, comment: str | None = None) -> None:
    """Change a group, and make none.

    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    :raises InvalidValueError: nothing was changed.
    """
    change.check()
    transact(f"change slot group '{name}'", lambda s: change_in(s, name, change, who, comment))


def change_in(session: Session, name: str, change: GroupChange, who: str, comment: str | None) -> None:
    """Change the locked group."""
    find_group(session, name)
    change_group(session, lock_group(session, name), change, who, comment, utcnow())


def set_in(session: Session, name: str, change: GroupChange, who: str, comment: str | None) -> bool:
    """Change the group if it is there, else make it."""
    now = utcnow()
    try:
        group = lock_group(session, name)
    except UnknownGroupError:
        make_group(session, name, change, who, comment, now)
        return True
    change_group(session, group, change, who, comment, now)
    return False


def make_group(
    session: Session, name: str, change: GroupChange, who: str, comment: str | None, now: datetime
) -> None:
    """Make the pool and adopt it in one go."""
    refuse_helper_pool(session, name)
    if name in read_pools(session, [name]):
        raise OrdinaryPoolError(name)
    if change.slots is None:
        raise InvalidValueError("slots", None, "a new group needs a size")
    pool = PoolRow(name, change.slots, include_deferred=False, description=change.description or "")
    put_pool(session, pool, exists=False)
    group = adopt_pool(session, name, change.settings(), comment, now)
    group.admits_from = None  # A pool made a moment ago has no tasks that could slip through.
    write_audit(session, "set", who=who, group=name, new=settings_of(group), comment=comment)


def change_group(
    session: Session, group: StoredGroup, change: GroupChange, who: str, comment: str | None, now: datetime
) -> None:
    """Change a locked group; grants follow in the next cycle."""
    if group.mode is Mode.DISSOLVING:
        raise DissolvingError(group.name)
    row = group.row
    old = settings_of(row)
    aged = change.ageing_seconds is not None and change.ageing_seconds != row.ageing_seconds
    for setting in ("slots", "description", "max_passes", "ageing_seconds"):
        if (value := getattr(change, setting)) is not None:
            setattr(row, setting, value)
    if change.strategy is not None:
        row.strategy = change.strategy.value
    row.comment = comment
    note_change(session, row, "set", now)
    if aged:
        reorder(session, group.name, row.ageing_seconds)
    write_audit(session, "set", who=who, group=group.name, old=old, new=settings_of(row), comment=comment)
    if change.description is not None and group.pool is not None:
        # Admin → Pools shows it, and dissolving leaves it.
        put_pool(session, replace(group.pool, description=change.description), exists=True)
        group = with_pools(session, [row])[0]
    if change.slots is None:
        keep_pools(session, [group], now)
        return
    # An edit by hand that came before is overruled, and must not be taken for the size in the next cycle.
    if not keep_pools(session, [group], now, heed_edits=False) and edited_by_hand(group):
        raise BusyError(f"close pool '{group.name}'")


def settings_of(row: SlotGroup) -> dict[str, object]:
    """Return what people can set, for the audit log."""
    names = ("slots", "description", "strategy", "max_passes", "ageing_seconds")
    return {name: getattr(row, name) for name in names}


def set_mode(name: str, mode: Mode, *, who: str, comment: str | None = None) -> GroupStatus:
    """Pause a group, let its limit rest, or make it active again; size and order stay.

    :param mode: active, paused or bypass.
    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    :raises DissolvingError: it is on its way to be an ordinary pool.
    """
    transact(f"set mode of '{name}'", lambda s: set_mode_in(s, name, mode, who, comment))
    return get_group(name)


def set_mode_in(session: Session, name: str, mode: Mode, who: str, comment: str | None) -> None:
    """Change the mode of the locked group; a mode that it has already is no change."""
    find_group(session, name)
    group = lock_group(session, name)
    if group.mode is Mode.DISSOLVING:
        raise DissolvingError(name)
    old = group.row.mode
    if old == mode.value:
        return
    now = utcnow()
    group.row.mode = mode.value
    group.row.comment = comment
    action = MODE_ACTIONS[mode]
    note_change(session, group.row, action, now)
    write_audit(
        session, action, who=who, group=name, old={"mode": old}, new={"mode": mode.value}, comment=comment
    )
    keep_pools(session, [group], now)


def adopt(name: str, change: GroupChange, *, who: str, comment: str | None = None) -> GroupStatus:
    """Turn an ordinary pool into a slot group, with tasks in flight.

    :param change: its settings; slots and description stay those of the pool.
    :raises UnknownPoolError: there is no such pool.
    :raises AlreadyGroupError: it is a group, or one of a group's own pools.
    :raises PoolNameTakenError: a pool of the name that the running pool needs exists.
    """
    change.check()
    check_group_name(name)
    try:
        transact(f"adopt pool '{name}'", lambda s: adopt_in(s, name, change, who, comment))
    except IntegrityError as error:
        raise already(name) from error
    return get_group(name)


def adopt_in(session: Session, name: str, change: GroupChange, who: str, comment: str | None) -> None:
    """Adopt and log it."""
    refuse_helper_pool(session, name)
    if session.get(SlotGroup, name) is not None:
        raise already(name)
    # Read before the first write: a missing pool is refused without having locked anything.
    if name not in read_pools(session, [name]):
        raise UnknownPoolError(name)
    group = adopt_pool(session, name, change.settings(), comment, utcnow())
    write_audit(session, "adopt", who=who, group=name, new=settings_of(group), comment=comment)


def already(name: str) -> AlreadyGroupError:
    """Say that there is nothing left to adopt."""
    return AlreadyGroupError(
        name, "is a slot group already", "change it with 'airflow slotgroups set', see it with 'get'"
    )


def refuse_helper_pool(session: Session, name: str) -> None:
    """Refuse the pool in which a group's tasks run: it belongs to that group."""
    home = name.removesuffix(RUNNING_SUFFIX)
    if home != name and session.get(SlotGroup, home) is not None:
        raise AlreadyGroupError(name, f"is the running pool of slot group '{home}'", f"name '{home}' instead")


def dissolve(name: str, *, who: str, end_sections: bool = False, comment: str | None = None) -> bool:
    """Turn a slot group back into an ordinary pool, with tasks in flight.

    :return: whether it is done; else the coordinator sends the last tasks home within seconds.
    :raises GroupInUseError: sections hold slots or wait, and `end_sections` is False.
    """
    return transact(f"dissolve '{name}'", lambda s: dissolve_in(s, name, who, end_sections, comment))


def dissolve_in(session: Session, name: str, who: str, end_sections: bool, comment: str | None) -> bool:
    """Dissolve and log it."""
    find_group(session, name)
    group = lock_group(session, name)
    old = settings_of(group.row)
    write_audit(session, "dissolve", who=who, group=name, old=old, comment=comment)
    return dissolve_group(session, group, end_sections=end_sections, now=utcnow())


def delete(name: str, *, who: str, comment: str | None = None) -> None:
    """Delete a group and its pools; `default_pool`, which Airflow needs, stays and is opened.

    :raises GroupInUseError: somebody waits or holds.
    """
    transact(f"delete slot group '{name}'", lambda s: delete_in(s, name, who, comment))


def delete_in(session: Session, name: str, who: str, comment: str | None) -> None:
    """Refuse while in use, else dissolve and take the pool away."""
    find_group(session, name)
    group = lock_group(session, name)
    status = status_of(session, group)
    # Those that no coordinator has enqueued yet wait all the same.
    waiting = max(status.waiting, unfinished_in(session, name))
    if waiting or status.holding or status.used:
        raise GroupInUseError(
            name, waiting, status.holding, "wait, or keep the pool with 'airflow slotgroups dissolve'"
        )
    write_audit(session, "delete", who=who, group=name, old=settings_of(group.row), comment=comment)
    if not dissolve_group(session, group, end_sections=False, now=utcnow()):
        raise GroupInUseError(name, 0, 0, "tasks are between two tries: use 'airflow slotgroups dissolve'")
    if name != DEFAULT_POOL:
        delete_pool(session, name)


def what_adopting_means(status: GroupStatus) -> list[str]:
    """Say what changes for the tasks of a pool that has just been adopted."""
    lines = ["Deferred tasks that were let in hold their slots until they end"]
    if status.pool == DEFAULT_POOL:
        lines.append(
            f"'{DEFAULT_POOL}' is the pool of every task that names none: all of them share this one queue now"
        )
    return lines

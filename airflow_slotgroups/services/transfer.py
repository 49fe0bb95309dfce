"""Slot groups to a file and from one; an import is applied whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.locks import has_row_locks
from airflow_slotgroups.airflow_core.pools import put_pool, read_pools
from airflow_slotgroups.airflow_core.teams import multi_team, team_exists
from airflow_slotgroups.domain.errors import (
    BusyError,
    DissolvingError,
    ImportRefusedError,
    InvalidValueError,
    PoolNameTakenError,
    SlotGroupsError,
    UnknownGroupError,
    UnreadableFileError,
)
from airflow_slotgroups.domain.group_file import Entry, format_entries, parse
from airflow_slotgroups.domain.names import running_pool
from airflow_slotgroups.domain.states import Mode, Strategy, Word
from airflow_slotgroups.services import groups
from airflow_slotgroups.services.transaction import read, transact
from airflow_slotgroups.store.groups import StoredGroup, begin_with_write, load_group, load_groups
from airflow_slotgroups.store.sizes import edited_by_hand


class Done(Word):
    """What an import did to a group."""

    MADE = "made"
    CHANGED = "changed"
    ADOPTED = "adopted"
    UNCHANGED = "unchanged"


def export_groups() -> dict[str, Entry]:
    """Return all slot groups, with their real sizes; ordinary and helper pools are left out."""
    return read(lambda session: {group.name: entry_of(group) for group in exported(session)})


def export_file(file: str) -> int:
    """Write them to a file.

    :return: how many.
    :raises UnreadableFileError: it can not be written.
    """
    entries = export_groups()
    try:
        Path(file).write_text(format_entries(entries), encoding="utf-8")
    except OSError as error:
        raise UnreadableFileError(file, f"it can not be written: {error.strerror}", "name another") from None
    return len(entries)


def exported(session: Session) -> list[StoredGroup]:
    """Read the groups; one that is being dissolved is an ordinary pool within seconds."""
    return [group for group in load_groups(session) if group.mode is not Mode.DISSOLVING]


def entry_of(group: StoredGroup) -> Entry:
    """Describe a group; `airflow pools import` makes of it the pool that it was."""
    row = group.row
    return Entry(
        slots=row.slots,
        description=row.description or "",
        include_deferred=row.pool_include_deferred,
        team_name=group.pool.team_name if group.pool else None,
        mode=row.mode,
        strategy=row.strategy,
        max_passes=row.max_passes,
        ageing_seconds=row.ageing_seconds,
    )


def import_file(
    file: str, *, who: str, take_pools: bool = False, comment: str | None = None
) -> dict[str, Done]:
    """Make and change groups as a file says.

    :raises UnreadableFileError: it is not there, or no text.
    """
    return import_content(file, content_of(file), who=who, take_pools=take_pools, comment=comment)


def import_content(
    source: str, content: str, *, who: str, take_pools: bool = False, comment: str | None = None
) -> dict[str, Done]:
    """Make and change groups as a text says, in one transaction; groups that it does not name stay.

    :param source: what it is called, in errors and in the audit log.
    :param take_pools: adopt ordinary pools of those names, with tasks in flight.
    :return: what was done, by name.
    :raises UnreadableFileError: it is no JSON object.
    :raises ImportRefusedError: an entry is wrong; nothing was changed.
    """
    entries, problems = parse(source, content)
    if problems:
        raise ImportRefusedError(source, problems)
    note = f"imported from {source}" + (f": {comment}" if comment else "")
    try:
        return transact(f"import {source}", lambda s: import_in(s, source, entries, who, take_pools, note))
    except IntegrityError as error:
        raise BusyError(f"import {source}") from error


def content_of(file: str) -> str:
    """Read a file."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableFileError(file, f"it can not be read: {error.strerror}", "name another") from None
    except UnicodeDecodeError:
        raise UnreadableFileError(file, "it can not be read: it is no UTF-8", "name another") from None


def import_in(
    session: Session, file: str, entries: Mapping[str, Entry], who: str, take_pools: bool, comment: str
) -> dict[str, Done]:
    """Look at all entries before the first is applied; then one after the other, in the order of names."""
    if not has_row_locks(session):
        begin_with_write(session, list(entries))
    found = {name: plan_or_error(session, name, entries[name], take_pools) for name in sorted(entries)}
    errors = {name: error for name, error in found.items() if isinstance(error, SlotGroupsError)}
    if errors:
        raise ImportRefusedError(file, [f"'{name}': {error}" for name, error in errors.items()])
    plans = {name: done for name, done in found.items() if isinstance(done, Done)}
    for name, done in plans.items():
        if done is not Done.UNCHANGED:
            apply(session, name, entries[name], done, who, comment)
    return plans


def plan_or_error(session: Session, name: str, entry: Entry, take_pools: bool) -> Done | SlotGroupsError:
    """Tell what is to be done, or why it can not be."""
    try:
        return plan_of(session, name, entry, take_pools)
    except SlotGroupsError as error:
        return error


def plan_of(session: Session, name: str, entry: Entry, take_pools: bool) -> Done:
    """Tell what is to be done.

    :raises SlotGroupsError: it can not be done.
    """
    check_team(session, entry)
    groups.refuse_helper_pool(session, name)
    try:
        group = load_group(session, name)
    except UnknownGroupError:
        return plan_of_new(session, name, take_pools)
    if group.mode is Mode.DISSOLVING:
        raise DissolvingError(name)
    wanted = {field: value for field, value in vars(entry).items() if value is not None}
    same = replace(entry_of(group), **wanted) == entry_of(group)
    # An edit of the pool by hand, not taken in yet, is overruled as by `set`.
    return Done.UNCHANGED if same and not edited_by_hand(group) else Done.CHANGED


def plan_of_new(session: Session, name: str, take_pools: bool) -> Done:
    """Tell what is to be done where there is no group.

    :raises SlotGroupsError: it can not be done.
    """
    pools = read_pools(session, [name, running_pool(name)])
    if running_pool(name) in pools:
        raise PoolNameTakenError(running_pool(name))
    if name not in pools:
        return Done.MADE
    if not take_pools:
        raise SlotGroupsError(
            "it is an ordinary pool", "adopt it as well ('--adopt', 'adopt' in the API), or leave it out"
        )
    return Done.ADOPTED


def check_team(session: Session, entry: Entry) -> None:
    """Refuse a team that there is not."""
    if entry.team_name is None:
        return
    if not multi_team():
        remedy = "leave it out, or set [core] multi_team to True"
        raise InvalidValueError("team_name", entry.team_name, remedy)
    if not team_exists(session, entry.team_name):
        remedy = f"make the team with 'airflow teams create {entry.team_name}'"
        raise InvalidValueError("team_name", entry.team_name, remedy)


def apply(session: Session, name: str, entry: Entry, done: Done, who: str, comment: str) -> None:
    """Make, change or adopt one group, in the caller's transaction; each step is in the audit log."""
    change = change_of(entry)
    if done is Done.ADOPTED:
        groups.adopt_in(session, name, change, who, comment)
    groups.set_in(session, name, change, who, comment)
    if entry.mode is not None:
        groups.set_mode_in(session, name, Mode(entry.mode), who, comment)
    group = load_group(session, name)
    if entry.include_deferred is not None:
        group.row.pool_include_deferred = entry.include_deferred
    if entry.team_name is not None and group.pool is not None:
        # The running pool follows in the next cycle.
        put_pool(session, replace(group.pool, team_name=entry.team_name), exists=True)


def change_of(entry: Entry) -> groups.GroupChange:
    """Return what services know of an entry."""
    return groups.GroupChange(
        slots=entry.slots,
        description=entry.description,
        strategy=Strategy(entry.strategy) if entry.strategy is not None else None,
        max_passes=entry.max_passes,
        ageing_seconds=entry.ageing_seconds,
    )

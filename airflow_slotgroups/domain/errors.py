"""One base for every error that a person is meant to read: what is wrong, with which value, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class SlotGroupsError(Exception):
    """What happened, to which value, and the remedy.

    :param message: one sentence with the offending value in it.
    :param remedy: what to do about it, in the imperative.
    """

    can_retry = False
    """Whether the same call may succeed later, with nothing changed."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy


class InvalidNameError(SlotGroupsError):
    """The name can not be that of a slot group."""

    def __init__(self, name: str, what: str, remedy: str) -> None:
        super().__init__(f"'{name}' can not be a slot group: {what}", remedy)
        self.name = name


class InvalidValueError(SlotGroupsError):
    """A setting has a value that it can not have."""

    def __init__(self, setting: str, value: object, remedy: str) -> None:
        super().__init__(f"{setting} can not be {value!r}", remedy)
        self.setting = setting
        self.value = value


class SectionError(SlotGroupsError):
    """A section of a DAG is written so that it would wait for itself."""


class UnknownGroupError(SlotGroupsError):
    """No slot group of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no slot group '{name}'",
            "list the groups with 'airflow slotgroups list', make one with 'airflow slotgroups set'",
        )
        self.name = name


class OrdinaryPoolError(SlotGroupsError):
    """A pool of that name exists and is no slot group."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"'{name}' is an ordinary pool",
            f"turn it into a slot group with 'airflow slotgroups adopt {quoted(name)}', or use 'airflow pools'",
        )
        self.name = name


class UnknownPoolError(SlotGroupsError):
    """No pool of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no pool '{name}'",
            f"make a slot group with 'airflow slotgroups set {quoted(name)} SLOTS'",
        )
        self.name = name


class AlreadyGroupError(SlotGroupsError):
    """The pool is a slot group already, or one of the pools that make up a group."""

    def __init__(self, name: str, what: str, remedy: str) -> None:
        super().__init__(f"'{name}' {what}", remedy)
        self.name = name


class PoolNameTakenError(SlotGroupsError):
    """A foreign pool bears the name that the group's running pool needs (scenario S73)."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"a pool '{name}' exists already, and the group needs that name for its running pool",
            "rename or delete that pool in Admin → Pools (if it is a slot group itself, with"
            f" 'airflow slotgroups delete {quoted(name)}'), then try again",
        )
        self.name = name


class UnknownTaskInstanceError(SlotGroupsError):
    """No such task instance."""

    def __init__(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> None:
        mapped = f", map index {map_index}" if map_index >= 0 else ""
        super().__init__(
            f"there is no task instance '{task_id}'{mapped} in run '{run_id}' of DAG '{dag_id}'",
            "check the names; one of a mapped task is meant by its map index ('--map-index', 'map_index')",
        )


class NothingFoundError(SlotGroupsError):
    """No live request is meant by what was given.

    :param what: what they should have had, in words; empty for any.
    """

    def __init__(self, group: str, what: str) -> None:
        super().__init__(
            f"slot group '{group}' has no live request" + (f" with {what}" if what else ""),
            f"see who waits and holds with 'airflow slotgroups queue {quoted(group)}'",
        )
        self.group = group


class RequestStateError(SlotGroupsError):
    """The action means waiting requests alone, and this one waits no longer (HTTP 409)."""

    def __init__(self, action: str, task: str, state: str) -> None:
        what = {"granted": "holds its slots already", "released": "has ended", "cancelled": "was cancelled"}
        super().__init__(
            f"{action} is for waiting requests, and {task} {what.get(state, 'is ' + state)}",
            "nothing was changed",
        )
        self.state = state


class GroupInUseError(SlotGroupsError):
    """The group has requests that the action would end."""

    def __init__(self, name: str, waiting: int, holding: int, remedy: str) -> None:
        super().__init__(f"slot group '{name}' is in use: {waiting} waiting, {holding} holding", remedy)
        self.name = name
        self.waiting = waiting
        self.holding = holding


class DissolvingError(SlotGroupsError):
    """The group is being dissolved."""

    can_retry = True

    def __init__(self, name: str) -> None:
        super().__init__(
            f"slot group '{name}' is being dissolved", "wait until its last tasks have gone home"
        )
        self.name = name


class BusyError(SlotGroupsError):
    """The database kept a row locked for longer than we wait."""

    can_retry = True

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: the database rows stayed locked by others", "try again; nothing was changed"
        )


class TablesMissingError(SlotGroupsError):
    """Our tables are missing or of another version (scenario S61)."""

    def __init__(self, found: str | None, wanted: str) -> None:
        state = "missing" if found is None else f"at version {found}, not {wanted}"
        super().__init__(f"the tables of slot groups are {state}", "run 'airflow db migrate'")
        self.found = found
        self.wanted = wanted


class UnreadableFileError(SlotGroupsError):
    """A file can not be read, or written."""

    def __init__(self, file: str, what: str, remedy: str) -> None:
        super().__init__(f"{file}: {what}", remedy)
        self.file = file


class ImportRefusedError(SlotGroupsError):
    """Entries of a file are wrong; nothing of it was applied.

    :param problems: a sentence each, with the entry, its value and the remedy.
    """

    def __init__(self, file: str, problems: Sequence[str]) -> None:
        super().__init__(f"{file}: {', and '.join(problems)}", "mend the file: nothing of it was imported")
        self.file = file
        self.problems = list(problems)


def quoted(name: str) -> str:
    """Quote a name for a shell line that a person may copy."""
    plain = name.replace("_", "").replace("-", "").replace(".", "").isalnum()
    return name if plain else "'" + name.replace("'", "'\\''") + "'"

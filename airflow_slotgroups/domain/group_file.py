"""Slot groups as a JSON file: what `airflow pools export` writes, and more (DESIGN section 6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from airflow_slotgroups.domain.errors import InvalidNameError, UnreadableFileError
from airflow_slotgroups.domain.names import RUNNING_SUFFIX, check_group_name, storable
from airflow_slotgroups.domain.order import MAX_AGEING_SECONDS
from airflow_slotgroups.domain.snapshot import UNLIMITED
from airflow_slotgroups.domain.states import Mode, Strategy

MODES = (Mode.ACTIVE.value, Mode.PAUSED.value, Mode.BYPASS.value)
STRATEGIES = tuple(strategy.value for strategy in Strategy)
MOST = 2**31 - 1


@dataclass(frozen=True)
class Entry:
    """A group in a file; what is None is not named there and stays as it is, or as it is for a new group.

    :param include_deferred: whether the pool counted deferred tasks before it was a group.
    """

    slots: int
    description: str | None = None
    include_deferred: bool | None = None
    team_name: str | None = None
    mode: str | None = None
    strategy: str | None = None
    max_passes: int | None = None
    ageing_seconds: int | None = None


class Pairs(dict[str, Any]):
    """A JSON object that remembers which keys stood in it twice."""

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        pairs = list(pairs)
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.doubles = sorted({name for name in names if names.count(name) > 1})


def whole_number(least: int, most: int = MOST) -> Callable[[Any], bool]:
    """Make a check for a number."""
    return lambda value: type(value) is int and least <= value <= most


def text(value: Any) -> bool:
    """Check for a text that a database takes, or for none."""
    return value is None or (isinstance(value, str) and storable(value))


FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "slots": (whole_number(UNLIMITED), "give a whole number of 0 or more, or -1 for no limit"),
    "description": (text, "give a text"),
    "include_deferred": (lambda value: isinstance(value, bool), "give true or false"),
    "team_name": (text, "give the name of a team, or null"),
    "mode": (lambda value: value in MODES, f"give one of {', '.join(MODES)}"),
    "strategy": (lambda value: value in STRATEGIES, f"give one of {', '.join(STRATEGIES)}"),
    "max_passes": (whole_number(1), "give a whole number of 1 or more"),
    "ageing_seconds": (
        whole_number(0, MAX_AGEING_SECONDS),
        f"give 1 to {MAX_AGEING_SECONDS} seconds for a point of priority, or 0 for no ageing",
    ),
}
"""What a value may be, and what to write when it is not, by field."""


def parse(file: str, content: str) -> tuple[dict[str, Entry], list[str]]:
    """Read the entries of a file.

    :param file: its name, for errors.
    :return: the good entries, by name; and what is wrong with the others, a sentence each.
    :raises UnreadableFileError: it is no JSON object.
    """
    try:
        found = json.loads(content, object_pairs_hook=Pairs)
    except ValueError as error:
        raise UnreadableFileError(file, f"it is no JSON: {error}", "mend it, or export one anew") from None
    if not isinstance(found, Pairs):
        raise UnreadableFileError(
            file, "it is no JSON object", 'write {"name of the group": {"slots": 3}, ...}'
        )
    problems = {name: list(problems_of(name, found)) for name in found}
    entries = {name: Entry(**found[name]) for name in found if not problems[name]}
    return entries, [f"'{name}': {problem}" for name, some in problems.items() for problem in some]


def problems_of(name: str, found: Pairs) -> Iterator[str]:
    """Yield what is wrong with one entry."""
    try:
        check_group_name(name)
    except InvalidNameError as error:
        yield str(error)
    if name in found.doubles:
        yield "it stands in the file twice; leave one"
    if (home := name.removesuffix(RUNNING_SUFFIX)) != name and home in found:
        yield f"it is the running pool of '{home}', which is in the file as well; leave it out"
    entry = found[name]
    if not isinstance(entry, Pairs):
        yield f'an entry can not be {entry!r}; write {{"slots": 3}}'
        return
    if "slots" not in entry:
        yield 'slots are missing; write "slots": and a whole number'
    yield from (f"{field} stands in the entry twice; leave one" for field in entry.doubles)
    for field, value in entry.items():
        yield from problems_of_field(field, value)


def problems_of_field(field: str, value: Any) -> Iterator[str]:
    """Yield what is wrong with one value."""
    if field not in FIELDS:
        yield f"there is no field {field!r}; the fields are {', '.join(FIELDS)}"
        return
    is_good, remedy = FIELDS[field]
    if not is_good(value):
        yield f"{field} can not be {value!r}; {remedy}"


def format_entries(entries: Mapping[str, Entry]) -> str:
    """Write entries as the content of a file, in the order and form of `airflow pools export`."""
    plain = {name: entry_as_json(entry) for name, entry in entries.items()}
    return json.dumps(plain, sort_keys=True, indent=4, ensure_ascii=False) + "\n"


def entry_as_json(entry: Entry) -> dict[str, Any]:
    """Return one entry; a pool of no team says nothing of teams."""
    values = {field.name: getattr(entry, field.name) for field in fields(entry)}
    return {name: value for name, value in values.items() if value is not None}

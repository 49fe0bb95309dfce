"""Names of the pools that make up a slot group (DESIGN section 1)."""

from __future__ import annotations

from airflow_slotgroups.domain.errors import InvalidNameError

RUNNING_SUFFIX = ".running"
UNLIMITED_POOL = "slotgroups.unlimited"
"""The pool, without a limit, in which tasks run that were started by force."""

MAX_NAME_LENGTH = 256 - len(RUNNING_SUFFIX)
"""Characters of a group's name: the helper pool's name must fit in `slot_pool.pool`."""

SLOT_TRIGGER_PATH = "airflow_slotgroups.triggers.slots.SlotTrigger"
"""Class path of the trigger on which acquires wait: stored in databases, so it never changes."""

RELEASE_OPERATOR = "ReleaseSlotsOperator"
"""Class of the operator that ends a section, as Airflow stores it in `task_instance.operator`."""

EXECUTOR_CONFIG_KEY = "slotgroups"
"""The key of a task's executor_config under which `slot_args` carries what Airflow has no argument for."""

MAX_WAIT_KEY = "max_wait_seconds"

LONGEST_WAIT_DAYS = 3650
"""Ten years: more is a mistake, and at last no date that a database can store."""


def running_pool(pool: str) -> str:
    """Name the pool in which the tasks of group `pool` run once they are let in."""
    return pool + RUNNING_SUFFIX


def storable(text: str) -> bool:
    """Tell whether every database takes a text: no NUL, and no half of a surrogate pair."""
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def check_group_name(pool: str) -> str:
    """Return `pool` if a group may bear that name.

    :raises InvalidNameError: the name is empty, too long, has a line break, which no path of the API server can
        have, or a character that no database takes, or is that of a pool that groups use themselves.
    """
    if not storable(pool):
        raise InvalidNameError(
            ascii(pool)[1:-1], "no database takes all of its characters", "choose another name"
        )
    if not pool.strip():
        raise InvalidNameError(pool, "the name is empty", "give the group a name")
    if len(pool) > MAX_NAME_LENGTH:
        raise InvalidNameError(
            pool,
            f"the name has {len(pool)} characters",
            f"choose one of at most {MAX_NAME_LENGTH}, so that '<name>{RUNNING_SUFFIX}' still is a pool's name",
        )
    if "\n" in pool or "\r" in pool:
        raise InvalidNameError(pool, "the name has a line break", "choose a name of one line")
    # As MySQL compares: there, names that differ in case are one pool.
    if pool.casefold() == UNLIMITED_POOL:
        raise InvalidNameError(pool, "forced starts use that pool", "choose another name")
    return pool

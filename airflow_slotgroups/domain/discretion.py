"""What a reader may be told: names of DAGs that one may not see are left out of every sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

MaySee = Callable[[str], bool]
"""Tells whether a reader may see a DAG."""


def everything(_dag_id: str) -> bool:
    """The sight of who has the database: command line and coordinator."""
    return True


def told(text: str, unnamed: str | None, dag_id: str | None, may_see: MaySee) -> str:
    """Return a sentence as a reader may hear it.

    :param unnamed: the same without names; None when there are none in it.
    :param dag_id: the DAG that it names; None when it may name any.
    """
    if unnamed is None or (dag_id is not None and may_see(dag_id)):
        return text
    return unnamed


def listed(tasks: Sequence[tuple[str, str]], total: int, may_see: MaySee) -> str:
    """Name some tasks, given as (DAG, task), and count the rest.

    :param total: how many there are; those that are not given are counted too.
    """
    names = [f"{dag_id}.{task_id}" for dag_id, task_id in tasks if may_see(dag_id)]
    rest = total - len(names)
    if not names:
        return str(total)
    return ", ".join(names) + (f" and {rest} more" if rest else "")

"""How the demo looks: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from devtools.demo_data import GroupView
from devtools.demo_summary import Grant, GroupSummary, cycles

WAITERS_SHOWN = 8


class QueueView(Protocol):
    """Shows the groups while they drain."""

    def __enter__(self) -> QueueView: ...

    def __exit__(self, *error: object) -> None: ...

    def show(self, groups: Sequence[GroupView]) -> None:
        """Show the groups as they are now."""


class PlainView:
    """A line whenever something has changed; no control characters."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._last: list[str] = []

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *error: object) -> None: ...

    def show(self, groups: Sequence[GroupView]) -> None:
        """Print what is not as it was."""
        lines = [plain_line(group) for group in groups]
        for line in lines:
            if line not in self._last:
                self._say(line)
        self._last = lines


class LiveView:
    """Tables that are drawn anew in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, groups: Sequence[GroupView]) -> None:
        """Draw all groups."""
        self._live.update(Group(*(group_table(group) for group in groups)))


def plain_line(group: GroupView) -> str:
    """A group in one line."""
    line = f"{group.group:<14} {group.used}/{group.capacity} in use, {len(group.waiters)} waiting"
    if group.running:
        line += "; holding: " + ", ".join(group.running)
    if group.waiters:
        line += f"; next: {group.waiters[0].task}"
    return line


def group_table(group: GroupView) -> RenderableType:
    """A group as a table: holders first, then the head of the queue."""
    title = f"{group.group}: {group.used} of {group.capacity} slots in use, {len(group.waiters)} waiting"
    table = Table(title=title, title_justify="left", expand=True)
    for column in ("", "task", "priority", "slots", "waiting for"):
        table.add_column(column)
    for task in group.running:
        table.add_row("in", task, "", "", "", style="green")
    now = datetime.now(timezone.utc)
    for position, waiter in enumerate(group.waiters[:WAITERS_SHOWN], start=1):
        waited = seconds(now - waiter.arrived_at)
        table.add_row(str(position), waiter.task, str(waiter.priority), str(waiter.slots), waited)
    if (more := len(group.waiters) - WAITERS_SHOWN) > 0:
        table.add_row("", f"and {more} more", "", "", "")
    return table


def summary_lines(summaries: Sequence[GroupSummary]) -> list[str]:
    """The summary of all groups as a table of plain text."""
    head = f"{'group':<16}{'size':>6}{'most used':>11}{'let in':>8}{'inversions':>12}{'median wait':>13}{'longest':>9}"
    return [head, *(_summary_line(one) for one in summaries)]


def order_line(dag: str, grants: Sequence[Grant]) -> str:
    """The order in which the tasks of one DAG were let in, one part a cycle."""
    own = [grant for grant in grants if grant.task.startswith(f"{dag}.")]
    parts = [", ".join(str(grant.priority) for grant in cycle) for cycle in cycles(own)]
    return f"{dag}: let in by priority " + " | ".join(parts) + " (a bar between two decisions)"


def seconds(span: timedelta) -> str:
    """A span in seconds."""
    return f"{span.total_seconds():.1f} s"


def _summary_line(one: GroupSummary) -> str:
    return (
        f"{one.group:<16}{one.capacity:>6}{one.most_used:>11}{one.grants:>8}{len(one.inversions):>12}"
        f"{seconds(one.median_wait):>13}{seconds(one.longest_wait):>9}"
    )

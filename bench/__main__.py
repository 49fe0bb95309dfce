"""Measures and prints; asserts nothing. Takes about five minutes a database."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from statistics import median
from types import FrameType

from rich.console import Console
from rich.table import Table

from bench import cycles, makespan, page
from bench.cycles import CycleTime
from bench.databases import POSTGRES_VARIABLE, kinds, migrated
from bench.makespan import GROUP, POOL, Makespans
from bench.page import PageTime
from devtools.deployment import DeploymentError

STARTED = time.monotonic()


def main() -> int:
    """Run all measurements; returns the exit code."""
    signal.signal(signal.SIGTERM, on_sigterm)
    try:
        return bench()
    except DeploymentError as error:
        print(f"bench failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench interrupted, all that it started is stopped", file=sys.stderr)
        return 130


def bench() -> int:
    """Measure on every database at hand, and print the tables."""
    if kinds() == ["sqlite"]:
        say(f"SQLite alone: {POSTGRES_VARIABLE} names no server")
    times, spans, pages = [], [], []
    for kind in kinds():
        with migrated(kind) as airflow:
            say(f"{kind}: 40 tasks of 1 s on {makespan.SLOTS} slots, {makespan.PAIRS} pairs")
            spans.append(makespan.measure(airflow, kind, say))
            say(f"{kind}: cycles with {' and '.join(f'{n:,}' for n in cycles.WAITERS)} waiters")
            times += cycles.measure(airflow, kind, say)
            say(f"{kind}: the page with {cycles.WAITERS[-1]:,} waiters")
            pages += page.measure(airflow, kind, cycles.WAITERS[-1], say)
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(makespan_table(spans), cycle_table(times), page_table(pages))
    return 0


def makespan_table(spans: Sequence[Makespans]) -> Table:
    """A line a database."""
    table = Table("database", title="Makespan of 40 tasks of 1 s on 4 slots", title_justify="left")
    for name in ("slot group (s)", "median", "ordinary pool (s)", "median", "pool / group"):
        table.add_column(name, justify="right")
    for one in spans:
        cells = []
        for dag_id in (GROUP, POOL):
            seconds = one.seconds[dag_id]
            cells += [" ".join(f"{value:.1f}" for value in seconds), f"{median(seconds):.1f}"]
        table.add_row(one.kind, *cells, f"{one.ratio():.0%}")
    return table


def cycle_table(times: Sequence[CycleTime]) -> Table:
    """A line for each kind of cycle."""
    table = table_of("Time of a cycle", "one cycle in which", "cycles", "ms")
    for one in times:
        numbers = (f"{one.waiters:,}", str(one.rounds), f"{one.median_ms:.1f}", f"{one.most_ms:.1f}")
        table.add_row(one.kind, one.what, *numbers)
    return table


def page_table(times: Sequence[PageTime]) -> Table:
    """A line for each page."""
    table = table_of("Time until the first rows stand", "page", "opened", "s")
    for one in times:
        numbers = (f"{one.waiters:,}", str(page.ROUNDS), f"{one.median_s:.1f}", f"{one.most_s:.1f}")
        table.add_row(one.kind, one.what, *numbers)
    return table


def table_of(title: str, what: str, rounds: str, unit: str) -> Table:
    """A table of times, with as many waiters, still empty."""
    table = Table("database", what, title=title, title_justify="left")
    for name in ("waiters", rounds, f"median ({unit})", f"most ({unit})"):
        table.add_column(name, justify="right")
    return table


def say(line: str) -> None:
    """A line of progress, with the seconds since the start."""
    print(f"{time.monotonic() - STARTED:6.1f} s  {line}", flush=True)


def on_sigterm(number: int, _frame: FrameType | None) -> None:
    """End as Ctrl-C does, so that what was started is ended too."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

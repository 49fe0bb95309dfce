"""Airflow's metrics: names that begin with `slotgroups.`, tagged with the pool as Airflow's own pool metrics are.

The metrics are listed in docs/operators.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from airflow.configuration import conf
from airflow.observability import stats
from airflow.observability.metrics import stats_utils

PREFIX = "slotgroups."
TAG = "pool_name"


def send_metrics_as_configured() -> None:
    """Send metrics to where section [metrics] says, as every process of Airflow sets up for itself."""
    stats.initialize(
        factory=stats_utils.get_stats_factory(),
        export_legacy_names=conf.getboolean("metrics", "legacy_names_on"),
    )


def gauge(name: str, value: float, pool: str) -> None:
    """Set a gauge of a group."""
    for stat, tags in names_for(name, pool):
        stats.gauge(stat, value, tags=tags)


def count(name: str, number: int, pool: str) -> None:
    """Add to a counter of a group."""
    for stat, tags in names_for(name, pool):
        stats.incr(stat, number, tags=tags)


def timing(name: str, took: timedelta, pool: str | None = None) -> None:
    """Record a duration, of a group or of none."""
    for stat, tags in names_for(name, pool):
        stats.timing(stat, took, tags=tags)


def names_for(name: str, pool: str | None) -> Iterator[tuple[str, dict[str, str]]]:
    """Return a metric's name with its tags and, as Airflow has it for its pools, one with the pool inside.

    StatsD without tags could not tell the groups apart otherwise; `[metrics] legacy_names_on` switches it off.
    """
    if pool is None:
        yield PREFIX + name, {}
        return
    safe = stats.normalize_name_for_stats(pool, log_warning=False)
    yield PREFIX + name, {TAG: safe}
    if conf.getboolean("metrics", "legacy_names_on"):
        yield f"{PREFIX}{name}.{safe.replace('.', '__')}", {}

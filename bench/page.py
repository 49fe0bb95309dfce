"""How long the page takes to show a group with ten thousand waiters."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from playwright.sync_api import Browser, Locator, Page

from bench.cycles import POOL
from devtools.api_server import api_server
from devtools.browser import CHROMIUM, VARIABLE, chromium
from devtools.deployment import Deployment

ROUNDS = 5
PATIENCE_MS = 60_000
PAGE = "plugin/slot-groups"
WHERE = {
    "overview": (PAGE, "Slot groups"),
    "group": (f"{PAGE}?group={POOL}", "Queue"),
}
"""What is opened, and the table that must have its rows."""


class PageTime(NamedTuple):
    """Seconds until a page's first rows stand, each time in a browser that knows nothing yet."""

    kind: str
    what: str
    waiters: int
    median_s: float
    most_s: float


def measure(airflow: Deployment, kind: str, waiters: int, say: Callable[[str], None]) -> list[PageTime]:
    """Open the pages of an Airflow of which nothing else runs.

    :param waiters: how many wait in the group of `bench.cycles`.
    """
    if not CHROMIUM.is_file():
        say(f"{kind}: the page is not measured, {VARIABLE} names no browser")
        return []
    results = []
    with api_server(airflow, "api-page") as address, chromium() as browser:
        for what, (path, table) in WHERE.items():
            # Once before, since the server loads what it needs with its first answer.
            seconds = [opened(browser, f"{address}/{path}", table) for _ in range(1 + ROUNDS)][1:]
            results.append(PageTime(kind, what, waiters, median(seconds), max(seconds)))
            say(f"{kind}: {what}, {waiters:,} waiters: {median(seconds):.1f} s")
    return results


def opened(browser: Browser, address: str, table: str) -> float:
    """Seconds from the address to the first row of a table."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, locale="en-GB")
    page = context.new_page()
    started = time.perf_counter()
    page.goto(address)
    first_row(page, table).wait_for(timeout=PATIENCE_MS)
    seconds = time.perf_counter() - started
    context.close()
    return seconds


def first_row(page: Page, table: str) -> Locator:
    """The first row of a table."""
    return page.get_by_role("table", name=table).locator("tbody tr").first

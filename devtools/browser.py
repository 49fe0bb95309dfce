"""Debian's Chromium, without a screen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

VARIABLE = "SLOTGROUPS_TEST_CHROMIUM"
CHROMIUM = Path(os.environ.get(VARIABLE, "/usr/bin/chromium"))
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
"""Among them what keeps it from looking for its maker's hosts."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run it for as long as the block lasts."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()

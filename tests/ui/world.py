"""What the tests do with Airflow and with a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, Locator, Page, expect

from devtools.deployment import Deployment

API = "/slotgroups/api/v1"
RUN = "run"
PATIENCE_MS = 30_000
"""That a test waits for one thing: the machine may be slow."""
TASKS = 4

expect.set_options(timeout=PATIENCE_MS)


class World:
    """An Airflow whose groups are filled on demand."""

    def __init__(self, airflow: Deployment, address: str) -> None:
        self.airflow = airflow
        self.address = address

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Call our own API as an administrator."""
        return self.airflow.rest.call(method, f"{API}/{path}", body)

    def group(self, name: str) -> dict[str, Any]:
        """The group as people see it."""
        return dict(self.api("GET", f"groups/{quote(name, safe='')}"))

    def fill(self, name: str, slots: int = 1) -> str:
        """Make group ui_NAME, of whose four tasks the most important ones run and the others wait."""
        pool = f"ui_{name}"
        self.api("POST", "groups", {"pool": pool, "slots": slots, "description": f"tests of {name}"})
        self.airflow.trigger(pool, RUN)
        waiting = TASKS - slots
        self.airflow.wait_for(
            lambda: (self.group(pool)["waiting"], self.group(pool)["use"]["running"]) == (waiting, slots),
            90,
            f"{waiting} waiters and {slots} running tasks in {pool}",
        )
        return pool

    def open(self, name: str, task: str) -> None:
        """Let a task end."""
        (self.airflow.home / "gates" / f"{name}_{task}").touch()


@contextmanager
def browsing(browser: Browser, address: str, **settings: Any) -> Iterator[Page]:
    """A page in a browser that knows nothing yet."""
    context = browser.new_context(
        base_url=f"{address}/", viewport={"width": 1400, "height": 900}, locale="en-GB", **settings
    )
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


@contextmanager
def pages_of(browser: Browser, address: str, **settings: Any) -> Iterator[Page]:
    """The same, where an error of a page's scripts fails the test."""
    with browsing(browser, address, **settings) as page:
        errors: list[object] = []
        page.on("pageerror", lambda error: errors.append(error))
        yield page
        assert not errors


def queue_of(page: Page) -> list[str]:
    """The tasks of the queue that is shown, first to last."""
    rows = page.get_by_role("table", name="Queue").locator("tbody tr")
    return [text.split(" › ")[1] for text in rows.locator("td:nth-child(3)").all_inner_texts()]


def in_dialog(page: Page) -> Locator:
    """The dialog of ours that is open; Airflow has its own."""
    return page.locator("form[role=dialog], form[role=alertdialog]")


def confirm(page: Page, button: str, comment: str | None = None) -> None:
    """Press the button of the dialog that is open, and see it close."""
    if comment is not None:
        in_dialog(page).get_by_label("Comment").fill(comment)
    in_dialog(page).get_by_role("button", name=button, exact=True).click()
    expect(in_dialog(page)).to_have_count(0)

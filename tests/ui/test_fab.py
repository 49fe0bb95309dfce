"""The view for Flask-AppBuilder, with FAB's own users and roles."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from .conftest import FAB_PASSWORD
from .world import World, browsing

pytestmark = pytest.mark.ui

VIEW = "pluginsv2/slotgroups"


def test_an_admin_searches_and_forces_and_a_viewer_looks(browser: Browser, world: World, fab: str) -> None:
    pool = world.fill("legacy")

    # The base page of FAB throws errors of its own.
    with browsing(browser, fab) as page:
        sign_in(page, "boss")
        page.goto(f"{VIEW}/list/?search=LEGACY")
        expect(page.get_by_role("table").locator("tbody tr")).to_have_count(1)
        page.get_by_role("link", name=pool).click()
        rows = page.get_by_role("table", name="Queue").locator("tbody tr")
        expect(rows).to_have_count(3)
        page.get_by_label("Select ui_legacy › p1").check()
        page.get_by_label("Comment").fill("by way of FAB")
        page.get_by_role("button", name="Force start").click()
        world.airflow.wait_for(lambda: world.group(pool)["overdraft"] == 1, 60, "the forced start")
        page.reload()
        expect(page.get_by_role("table", name="Holders")).to_contain_text("started by force")
        entry = world.api("GET", f"audit/{pool}")["entries"][0]
        assert (entry["action"], entry["who"], entry["comment"]) == ("force-start", "boss", "by way of FAB")

        page.get_by_role("link", name="Edit").click()
        page.get_by_label("Size").fill("2")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("2 of 2 in use, 2 waiting")).to_be_visible()
        refused = page.request.post(
            f"{fab}/{VIEW}/mode/",
            form={"pool": pool, "verb": "pause"},
            headers={"Origin": "https://elsewhere.example.org"},
        )
        assert refused.status == 403

    with browsing(browser, fab) as page:
        sign_in(page, "guest")
        page.goto(f"{VIEW}/queue/?pool={pool}")
        expect(page.get_by_role("table", name="Queue").locator("tbody tr")).to_have_count(2)
        expect(page.get_by_role("button", name="Force start")).to_have_count(0)
        assert page.goto(f"{VIEW}/edit/?pool={pool}").status == 403  # type: ignore[union-attr]
        permissions = world.airflow.rows(
            "SELECT p.name FROM ab_permission_view v JOIN ab_permission p ON p.id = v.permission_id"
            " JOIN ab_view_menu m ON m.id = v.view_menu_id WHERE m.name = 'Pools'"
        )
        assert {row["name"] for row in permissions} >= {"can_create", "can_delete", "can_edit", "can_read"}


def sign_in(page: Page, user: str) -> None:
    """By FAB's form."""
    page.goto("auth/login/")
    page.locator("input[name=username]").fill(user)
    page.locator("input[name=password]").fill(FAB_PASSWORD)
    page.locator("input[name=password]").press("Enter")
    page.get_by_role("button", name="Browse").wait_for()

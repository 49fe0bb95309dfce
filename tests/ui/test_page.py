"""Admin → Slot Groups, and the tab on the task instance."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from .conftest import PASSWORDS, PREFIX
from .world import RUN, World, confirm, in_dialog, pages_of, queue_of

pytestmark = pytest.mark.ui

PAGE = "plugin/slot-groups"


def test_the_menu_leads_to_the_page_where_a_queue_drains_in_order(page: Page, world: World) -> None:
    pool = world.fill("drain")

    page.goto("")
    page.get_by_role("button", name="Admin").click()
    page.get_by_role("menuitem", name="Slot Groups").click()
    expect(page.get_by_role("heading", name="Slot Groups")).to_be_visible()
    row = page.locator(f"tr[data-group={pool}]")
    expect(row.get_by_role("img", name="1 of 1 in use: 1 running")).to_be_visible()
    expect(row.get_by_role("img", name=re.compile("waiting, last hour: 3 now, [34] at most"))).to_be_visible()
    expect(row).to_contain_text("ui_drain › p3")
    page.get_by_role("link", name=pool, exact=True).click()
    expect(page.get_by_text("1 of 1 in use, 3 waiting")).to_be_visible()

    expect(page.get_by_role("table", name="Queue").locator("tbody tr")).to_have_count(3)
    seen = [queue_of(page)]
    for ends, first in (("p4", "p2"), ("p3", "p1")):
        world.open("drain", ends)
        rows = page.get_by_role("table", name="Queue").locator("tbody tr")
        expect(rows.first).to_contain_text(f"ui_drain › {first}")
        seen.append(queue_of(page))
    world.open("drain", "p2")
    expect(page.get_by_text("Nobody waits")).to_be_visible()
    world.open("drain", "p1")
    expect(page.get_by_text("0 of 1 in use, 0 waiting")).to_be_visible()
    assert seen == [["p3", "p2", "p1"], ["p2", "p1"], ["p1"]]

    page.get_by_role("tab", name="History").click()
    ended = page.get_by_role("table", name="Ended requests").locator("tbody tr")
    expect(ended).to_have_count(4)
    expect(ended.first).to_contain_text("in its turn")
    expect(page.get_by_role("img", name="Slots in use: 1 at most, 4 requests let in")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Waiters: [34] at most"))).to_be_visible()
    expect(page.get_by_role("tab", name="Where used 1 DAG")).to_be_visible()


def test_a_forced_start_says_what_it_means_and_is_in_the_audit_log(page: Page, world: World) -> None:
    pool = world.fill("force")

    page.goto(f"{PAGE}?group={pool}")
    page.get_by_role("button", name="Force start ui_force › p1").click()
    expect(in_dialog(page)).to_contain_text("use will be 2 of 1")
    expect(in_dialog(page)).to_contain_text("an overdraft of 1 slot")
    expect(in_dialog(page).get_by_label("Comment")).to_be_focused()
    confirm(page, "Force start", "the board waits for it")

    expect(page.get_by_role("status")).to_contain_text("ui_force › p1 started by force")
    expect(page.get_by_text("2 of 1 in use, 2 waiting, 1 slot overdraft")).to_be_visible()
    assert queue_of(page) == ["p3", "p2"]
    # Airflow shows the very same component again, not another one without its state.
    page.get_by_role("heading", name=pool).evaluate("element => { element.dataset.mark = 'same'; }")
    page.get_by_role("tab", name="Holders").click()
    expect(page.get_by_text("holds its slots, started by force")).to_be_visible()
    expect(page.locator("h1[data-mark=same]")).to_be_visible()
    page.get_by_role("tab", name="Audit").click()
    entry = page.get_by_role("row").filter(has_text="force-start")
    expect(entry).to_contain_text("the board waits for it")
    expect(entry).to_contain_text("forced false → true")


def test_priorities_and_suspended_waiters(page: Page, world: World) -> None:
    pool = world.fill("order")
    rows = page.get_by_role("table", name="Queue").locator("tbody tr")

    page.goto(f"{PAGE}?group={pool}")
    page.get_by_role("button", name="Priority 10 of ui_order › p1, change").click()
    in_dialog(page).get_by_label("Priority").fill("99")
    confirm(page, "Set priority")
    expect(rows.first).to_contain_text("ui_order › p1")
    assert queue_of(page) == ["p1", "p3", "p2"]

    # By the keyboard alone: select one, put it on top.
    page.get_by_label("Select ui_order › p2").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="To top").focus()
    page.keyboard.press("Enter")
    expect(in_dialog(page)).to_contain_text("goes before all others")
    in_dialog(page).get_by_role("button", name="To top").focus()
    page.keyboard.press("Enter")
    expect(rows.first).to_contain_text("ui_order › p2")

    for task in ("p1", "p2"):
        page.get_by_label(f"Select ui_order › {task}").check()
    page.get_by_role("button", name="Suspend", exact=True).click()
    confirm(page, "Suspend")
    expect(page.get_by_text("suspended")).to_have_count(3)  # two rows, and the message
    world.open("order", "p4")
    expect(page.get_by_text("1 of 1 in use, 2 waiting")).to_be_visible()
    assert queue_of(page) == ["p2", "p1"]
    page.get_by_label("Select all of this page").check()
    page.get_by_role("button", name="Unsuspend").click()
    confirm(page, "Unsuspend")
    world.open("order", "p3")
    expect(page.get_by_text("1 of 1 in use, 1 waiting")).to_be_visible()
    assert queue_of(page) == ["p1"]


def test_pause_resume_and_a_new_size(page: Page, world: World) -> None:
    pool = world.fill("pause")

    page.goto(f"{PAGE}?group={pool}")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(in_dialog(page)).to_contain_text("1 holder finishes, 3 waiters keep their places")
    confirm(page, "Pause", "database is moved")
    expect(page.get_by_text("paused", exact=True)).to_be_visible()
    world.open("pause", "p4")
    expect(page.get_by_text("0 of 1 in use, 3 waiting")).to_be_visible()

    page.get_by_role("button", name="Resume").click()
    expect(in_dialog(page)).to_contain_text("3 wait, 1 slot is free")
    confirm(page, "Resume")
    expect(page.get_by_text("1 of 1 in use, 2 waiting")).to_be_visible()

    page.get_by_role("button", name="Edit").click()
    in_dialog(page).get_by_label("Size").fill("3")
    confirm(page, "Save")
    expect(page.get_by_text("3 of 3 in use, 0 waiting")).to_be_visible()


def test_a_bypass_lets_everybody_in_until_resume(page: Page, world: World) -> None:
    pool = world.fill("bypass")

    page.goto(f"{PAGE}?group={pool}")
    page.get_by_role("button", name="Bypass", exact=True).click()
    expect(in_dialog(page)).to_contain_text("everybody is let in: up to 3 waiters now")
    expect(in_dialog(page)).to_contain_text("Use may be 4 of 1")
    confirm(page, "Bypass", "the vendor lifts his quota today")
    expect(page.get_by_text("bypass: no limit")).to_be_visible()
    expect(page.get_by_text("4 of 1 in use, 0 waiting")).to_be_visible()

    page.get_by_role("button", name="Resume").click()
    expect(in_dialog(page)).to_contain_text("use is 4 of 1, the overdraft is paid back")
    confirm(page, "Resume")
    expect(page.get_by_text("3 slots overdraft")).to_be_visible()
    for number in range(1, 5):
        world.open("bypass", f"p{number}")
    expect(page.get_by_text("0 of 1 in use, 0 waiting")).to_be_visible()


def test_groups_are_made_adopted_and_dissolved(page: Page, world: World) -> None:
    world.airflow.rest.call(
        "POST", "/api/v2/pools", {"name": "plain", "slots": 5, "description": "as it was"}
    )

    page.goto(PAGE)
    page.get_by_role("button", name="New group").click()
    dialog = in_dialog(page)
    dialog.get_by_label("Name").fill("plain")
    dialog.get_by_label("Size").fill("2")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("'plain' is an ordinary pool")
    expect(dialog.get_by_role("alert")).to_contain_text("adopt")
    dialog.get_by_label("Name").fill("a/new one ☕")
    confirm(page, "Create")
    expect(page.locator("tr").filter(has_text="a/new one ☕")).to_contain_text("0 / 2")

    page.get_by_role("button", name="Adopt a pool").click()
    in_dialog(page).get_by_label("Pool").select_option("plain")
    confirm(page, "Adopt", "too many at once")
    row = page.locator("tr[data-group=plain]")
    expect(row).to_contain_text("0 / 5")
    expect(row).to_contain_text("as it was")

    page.get_by_role("link", name="a/new one ☕").click()
    expect(page.get_by_role("heading", name="a/new one ☕")).to_be_visible()
    page.get_by_role("button", name="Dissolve").click()
    confirm(page, "Dissolve")
    expect(page.get_by_role("heading", name="Slot Groups")).to_be_visible()
    expect(row).to_be_visible()
    expect(page.locator("tr").filter(has_text="a/new one ☕")).to_have_count(0)


def test_groups_go_to_a_file_and_come_back(page: Page, world: World, tmp_path: Path) -> None:
    world.api("POST", "groups", {"pool": "carried", "slots": 3, "description": "to and fro ☕"})
    bad = tmp_path / "bad.json"
    bad.write_text('{"carried": {"slots": -5}, "default_pool": {"slots": 8}}')

    page.goto(PAGE)
    first = exported(page, tmp_path / "first.json")
    world.api("DELETE", "groups/carried")
    expect(page.locator("tr[data-group=carried]")).to_have_count(0)

    page.get_by_role("button", name="Import…").click()
    dialog = in_dialog(page)
    dialog.get_by_label("File").set_input_files(bad)
    expect(dialog).to_contain_text("default_pool is an ordinary pool, and refused")
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("'carried': slots can not be -5")
    dialog.get_by_label("File").set_input_files(first)
    expect(dialog).to_contain_text("carried is made: 3 slots")
    confirm(page, "Import", "back again")
    expect(page.get_by_role("status")).to_contain_text("1 made")
    expect(page.locator("tr[data-group=carried]")).to_contain_text("to and fro ☕")

    second = exported(page, tmp_path / "second.json")
    assert second.read_text() == first.read_text()
    comment = world.api("GET", "audit/carried")["entries"][0]["comment"]
    assert comment == "imported from first.json: back again"


def exported(page: Page, file: Path) -> Path:
    """Export all groups to a file."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    assert download.value.suggested_filename == "slot_groups.json"
    download.value.save_as(file)
    return file


def test_an_import_adopts_pools_if_it_is_told_to(page: Page, world: World, tmp_path: Path) -> None:
    pool = {"name": "of_the_file", "slots": 5, "description": "", "include_deferred": False}
    world.airflow.rest.call("POST", "/api/v2/pools", pool)
    file = tmp_path / "groups.json"
    file.write_text('{"of_the_file": {"slots": 6}}')

    page.goto(PAGE)
    page.get_by_role("button", name="Import…").click()
    dialog = in_dialog(page)
    dialog.get_by_label("File").set_input_files(file)
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("'of_the_file': it is an ordinary pool")
    dialog.get_by_text("Adopt ordinary pools of those names").click()
    expect(dialog).to_contain_text("of_the_file is adopted: 6 slots")
    confirm(page, "Import")
    expect(page.get_by_role("status")).to_contain_text("1 adopted")
    expect(page.locator("tr[data-group=of_the_file]")).to_contain_text("0 / 6")


def test_a_deletion_is_in_the_audit_log_of_a_group_that_is_made_again(page: Page, world: World) -> None:
    group = {"pool": "short_lived", "slots": 1}
    world.api("POST", "groups", group)

    page.goto(f"{PAGE}?group=short_lived")
    page.get_by_role("button", name="Delete").click()
    expect(in_dialog(page)).to_contain_text("The group goes, and its pool with it")
    confirm(page, "Delete", "no longer needed")
    expect(page.get_by_role("heading", name="Slot Groups")).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("short_lived is deleted")

    world.api("POST", "groups", group)
    page.goto(f"{PAGE}?group=short_lived&tab=audit")
    expect(page.get_by_role("row").filter(has_text="delete")).to_contain_text("no longer needed")


def test_the_tab_says_where_a_task_stands_and_why(page: Page, world: World) -> None:
    pool = world.fill("tab")

    page.goto(f"dags/{pool}/runs/{RUN}/tasks/p1")
    page.get_by_role("link", name="Slot Group", exact=True).click()
    expect(standing(page)).to_have_text(f"Waits for 1 slot of {pool}: place 3 of 3")
    expect(page.get_by_test_id("reason")).to_have_text("Needs 1, 0 free")
    steps = page.get_by_role("list", name="Timeline").get_by_role("listitem")
    expect(steps).to_have_text([re.compile("waiting since 20"), re.compile("now, .* s")])
    expect(page.get_by_role("table", name="Holds the slots now")).to_contain_text("ui_tab › p4")
    limits = page.get_by_role("table", name="Every limit, checked now").get_by_role("row")
    expect(limits.filter(has_text="Waits in slot group")).to_contain_text("holds it")
    expect(limits.filter(has_text="is not paused")).to_contain_text("does not hold it")

    standing(page).get_by_role("link", name=pool).click()
    marked = page.locator("tr[aria-current=true]")
    expect(marked).to_contain_text("ui_tab › p1")
    page.go_back()
    page.get_by_role("button", name="Force start…").click()
    confirm(page, "Force start")
    expect(standing(page)).to_have_text(f"Holds 1 slot of {pool}")
    expect(steps.first).to_contain_text("holding since 20")


def test_a_viewer_sees_everything_and_is_offered_nothing_under_a_path_prefix_too(
    browser: Browser, world: World, guarded: str
) -> None:
    pool = world.fill("view")

    with pages_of(browser, guarded) as page:
        asked: set[str] = set()
        page.on("request", lambda request: asked.add(request.url))
        sign_in(page, "viewer")
        page.goto(PAGE)
        expect(page.locator(f"tr[data-group={pool}]")).to_contain_text("1 / 1")
        expect(page.get_by_role("button", name="Export")).to_be_visible()
        for name in ("New group", "Import…"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)
        expect(page.get_by_role("button", name=f"Actions for {pool}")).to_have_count(0)
        page.get_by_role("link", name=pool, exact=True).click()
        expect(page.get_by_role("table", name="Queue").locator("tbody tr")).to_have_count(3)
        expect(page.get_by_text("needs 1, 0 free").first).to_be_visible()
        for name in ("Force start", "Priority", "Pause", "Edit", "Delete"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)
        page.get_by_role("link", name="ui_view › p3").click()
        page.get_by_role("link", name="Slot Group", exact=True).click()
        expect(standing(page)).to_have_text(f"Waits for 1 slot of {pool}: place 1 of 3")
        expect(page.get_by_role("button", name="Force start…")).to_have_count(0)
        paths = {urlsplit(url).path for url in asked if url.startswith("http")}
        assert {path for path in paths if not path.startswith(f"{PREFIX}/")} <= {PREFIX}
        assert f"{PREFIX}/slotgroups/static/slotgroups.js" in paths

    with pages_of(browser, guarded) as page:
        sign_in(page, "admin")
        page.goto(f"{PAGE}?group={pool}")
        page.get_by_role("button", name="Priority 10 of ui_view › p1, change").click()
        in_dialog(page).get_by_label("Priority").fill("77")
        confirm(page, "Set priority")
        page.get_by_role("tab", name="Audit").click()
        expect(page.get_by_role("row").filter(has_text="prioritize")).to_contain_text("admin")


def standing(page: Page) -> Locator:
    """The answer of the tab."""
    return page.get_by_role("heading", name="1 slot of")


def sign_in(page: Page, user: str) -> None:
    """By the form of the simple auth manager."""
    page.goto("auth/login")
    page.locator("input[name=username]").fill(user)
    page.locator("input[name=password]").fill(PASSWORDS[user])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Browse").wait_for()


def test_strangers_get_not_even_the_bundle(browser: Browser, guarded: str) -> None:
    with pages_of(browser, guarded) as page:
        answer = page.request.get(f"{guarded}/slotgroups/static/slotgroups.js")

        assert answer.status == 401


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_theme(browser: Browser, world: World, scheme: str) -> None:
    with pages_of(browser, world.address, color_scheme=scheme) as page:
        page.goto(PAGE)
        heading = page.get_by_role("heading", name="Slot Groups")
        expect(heading).to_be_visible()
        # It stands before its styles do.
        page.wait_for_function(
            f"element => {{ const [text, ground] = ({LIGHTNESS})(element); return Math.abs(text - ground) > 0.5; }}",
            arg=heading.element_handle(),
        )
        text, ground = heading.evaluate(LIGHTNESS)

        assert (text > ground) == (scheme == "dark")


LIGHTNESS = """element => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const paint = color => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return canvas.getImageData(0, 0, 1, 1).data;
    };
    const lightness = ([red, green, blue]) => (red + green + blue) / 765;
    let ground = element;
    while (paint(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
    return [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor].map(paint).map(lightness);
}"""

"""The page without a pointer: where Tab leads, that one sees where one is, and where the focus goes."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.live.page.houses import PageHouse
from tests.live.page.visits import MAX_TABS, Visit, tab_to

pytestmark = [pytest.mark.anyio, pytest.mark.live]


async def shows_focus(visit: Visit) -> bool:
    """Whether one sees what has the focus."""
    return bool(
        await visit.page.evaluate(
            """() => {
                const isOutlined = (it) => {
                    const { outlineStyle, outlineWidth } = getComputedStyle(it);
                    return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
                };
                const its = document.activeElement;
                // a view that has just begun has the focus as a whole, and shows it at its title
                const at = its.matches("main") ? its.querySelector("h1") ?? its : its;
                return isOutlined(at) || isOutlined(at.closest("li") ?? at);
            }"""
        )
    )


async def test_the_first_key_leads_past_the_navigation(visit: Visit) -> None:
    page = visit.page
    await page.goto(f"{visit.origin}/ui/")
    await expect(page.get_by_role("heading", name="Servers")).to_be_visible()
    await page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    await expect(skip).to_be_focused()
    await expect(skip).to_be_in_viewport()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()


async def test_every_stop_is_seen_and_has_a_name(visit: Visit) -> None:
    page = visit.page
    for place in (
        "",
        "calls",
        "model",
        "setup",
        "setup/add",
        "servers/shown/tools/order",
        "servers/shown/log",
        "servers/shown/entry",
    ):
        await visit.go(place)
        stops: list[str] = []
        while len(stops) < MAX_TABS:
            await page.keyboard.press("Tab")
            at = await page.evaluate("document.activeElement.outerHTML.slice(0, 300)")
            if at.startswith("<body") or at in stops[:1]:
                break  # once round
            assert await shows_focus(visit), at
            stops.append(at)
        assert len(stops) < MAX_TABS, (place, stops[-3:])


async def test_views_and_cards_are_opened_with_enter(visit: Visit) -> None:
    page = visit.page
    await visit.go("calls")
    await tab_to(visit, page.get_by_role("link", name="Overview", exact=True))
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(page.get_by_role("main")).to_be_focused()
    await tab_to(visit, page.get_by_role("link", name="shown", exact=True))
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="shown", exact=True)).to_be_visible()


async def test_a_view_that_was_opened_by_key_is_marked_at_its_title_and_one_by_pointer_is_not(
    visit: Visit,
) -> None:
    page = visit.page
    outline = "it => getComputedStyle(it).outlineStyle"
    title = page.get_by_role("heading", level=1)
    await visit.go("calls")
    await page.get_by_role("link", name="Setup", exact=True).click()
    await expect(title).to_have_text("Setup")
    await expect(page.get_by_role("main")).to_be_focused()
    assert await page.get_by_role("main").evaluate(outline) == "none"
    assert await title.evaluate(outline) == "none"
    await tab_to(visit, page.get_by_role("link", name="Calls", exact=True), "Shift+Tab")
    await page.keyboard.press("Enter")
    await expect(title).to_have_text("Calls")
    await expect(page.get_by_role("main")).to_be_focused()
    await expect(page.get_by_role("main")).to_have_css("outline-style", "none")
    await expect(title).to_have_css("outline-style", "solid")


async def test_a_tool_is_tried_with_keys_alone(visit: Visit) -> None:
    page = visit.page
    await visit.go("servers/shown")
    await tab_to(visit, page.get_by_role("link", name="order"))
    await page.keyboard.press("Enter")
    await tab_to(visit, page.get_by_label("item"))
    await page.keyboard.type("a lamp")
    await tab_to(visit, page.get_by_label("size"))
    await page.keyboard.type("la")
    await tab_to(visit, page.get_by_role("button", name="Run"))
    await page.keyboard.press("Enter")
    result = page.get_by_role("region", name="Result")
    await expect(result).to_contain_text("a lamp")
    await expect(result).to_contain_text("large")
    await expect(page.get_by_role("button", name="Run")).to_be_focused()


async def test_a_dialog_keeps_the_focus_and_gives_it_back(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    await visit.go("servers/shown")
    disable = page.get_by_role("button", name="Disable")
    await tab_to(visit, disable)
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    for _ in range(8):
        await page.keyboard.press("Tab")
        outside = "document.activeElement !== document.body && !document.activeElement.closest('dialog')"
        assert not await page.evaluate(outside)
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(disable).to_be_focused()
    await page.keyboard.press("Enter")
    await tab_to(visit, dialog.get_by_role("button", name="Cancel"))
    await page.keyboard.press("Enter")
    await expect(disable).to_be_focused()
    assert house.server()["state"] == "ready"


async def test_a_button_that_has_done_its_work_keeps_the_focus(visit: Visit) -> None:
    page = visit.page
    await visit.go("servers/shown")
    restart = page.get_by_role("button", name="Restart")
    await tab_to(visit, restart)
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Now: ready")).to_be_visible()
    await expect(restart).to_be_focused()


async def test_one_call_is_opened_and_left(visit: Visit) -> None:
    page = visit.page
    await visit.go("servers/shown/tools/draw")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("region", name="Result")).to_be_visible()
    await visit.go("calls")
    link = page.get_by_role("table").get_by_role("link", name="draw").first
    await tab_to(visit, link)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("complementary", name="draw")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("complementary")).to_have_count(0)
    await expect(link).to_be_focused()

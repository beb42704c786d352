"""The page in several windows of one browser, and in windows of every width."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.live.page.houses import PageHouse
from tests.live.page.visits import Visit

pytestmark = [pytest.mark.anyio, pytest.mark.live]
WIDTHS = (360, 500, 700, 780, 900, 1024, 1100, 1200, 1366, 1600)
READABLE_PX = 90  # of a server's and tool's name


@pytest.mark.parametrize("detail", [False, True])
async def test_what_was_called_is_in_sight_at_every_width(
    visit: Visit, house: PageHouse, detail: bool
) -> None:
    page = visit.page
    await visit.go("calls")
    assert house.run("exec", "shown", "echo", '{"text": "x"}').returncode == 0
    link = page.get_by_role("table").get_by_role("link", name="echo").first
    await link.wait_for()
    if detail:
        await link.click()
        await page.get_by_role("button", name="Close").wait_for()
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 800})
        cell = await page.locator(".call-table td.what").first.bounding_box()
        assert cell is not None, width
        assert cell["width"] >= READABLE_PX, width
        assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width


async def test_a_window_that_was_signed_out_goes_on_when_another_is_let_in(
    visit: Visit, house: PageHouse
) -> None:
    await visit.go("setup")
    await visit.page.get_by_role("button", name="Sign out").click()
    await expect(visit.page.get_by_role("heading", name="Signed out")).to_be_visible()
    visit.wrong.clear()
    other = await visit.page.context.new_page()
    await other.goto(house.run("ui", "--print").stdout.strip())
    await expect(visit.page.get_by_role("heading", name="Setup")).to_be_visible()
    await other.close()

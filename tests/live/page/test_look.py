"""How each view looks to everybody: axe-core finds nothing serious, and nothing is wider than the page.

In dark and light, at 360 and 1600 pixels, and in the states that views have: a dialog that is open, a failure
that is shown, a server that is down or waits for a person.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final, Literal

import pytest
from playwright.async_api import expect

from tests.live.page.houses import PageHouse, open_house
from tests.live.page.visits import NARROW, WIDE, WIDER, Visit

pytestmark = [pytest.mark.anyio, pytest.mark.live]
PLACES = (
    "",
    "calls",
    "model",
    "model/as-other/search",
    "setup",
    "setup/add",
    "setup/doctor",
    "setup/import",
    "setup/install",
    "setup/changes",
    "servers/shown",
    "servers/shown/tools/order",
    "servers/shown/tools/draw",
    "servers/shown/resources/notes%3A%2F%2Fone",
    "servers/shown/prompts/greet",
    "servers/shown/log",
    "servers/shown/timeline",
    "servers/shown/approvals",
    "servers/shown/entry",
    "servers/down",
    "servers/off",
    "servers/nobody",
    "nowhere",
)
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
LONG = "a-name-that-is-as-long-as-names-may-be-" + "x" * 25


@pytest.fixture(scope="module")
def house() -> Iterator[PageHouse]:
    with open_house() as house:
        ends = {
            "command": sys.executable,
            "args": ["-S", "-c", "raise SystemExit('no such database: orders')"],
        }
        off = {"command": "true", "disabled": True}
        house.begin({"shown": house.shown, "down": ends, "off": off, LONG: off}, pin="block")
        house.say(changed="is another one now")
        assert house.run("exec", "shown", "change").returncode == 0
        assert house.run("restart", "shown").returncode == 0
        yield house


async def check(visit: Visit, where: str) -> None:
    """In each look, nothing serious is found, and nothing is wider than the page."""
    for size in (WIDE, NARROW):
        await visit.page.set_viewport_size(size)
        for scheme in THEMES:
            await visit.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            wider = await visit.page.evaluate(WIDER)
            assert not wider, (where, size, wider)
            found = await visit.violations(of_colours=scheme != THEMES[0])
            assert not found, (where, scheme, size, found)


@pytest.mark.parametrize("place", PLACES)
async def test_every_view_is_for_everybody(visit: Visit, place: str) -> None:
    await visit.go(place)
    await expect(visit.page.locator(".loading")).to_have_count(0)
    await check(visit, place)


async def test_so_is_a_question(visit: Visit) -> None:
    page = visit.page
    await visit.go("servers/shown")
    await page.get_by_role("button", name="Disable").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await check(visit, "a question")
    await page.keyboard.press("Escape")


async def test_so_is_a_form_with_its_mistakes_and_its_result(visit: Visit) -> None:
    page = visit.page
    await visit.go("servers/shown/tools/order")
    await page.get_by_role("button", name="Fill in address").click()
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await check(visit, "a form with mistakes")
    await page.get_by_label("item").fill("a lamp")
    await page.get_by_label("town").fill("Rome")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("region", name="Result")).to_be_visible()
    await page.get_by_role("button", name="JSON", exact=True).click()
    await page.get_by_role("textbox", name="Arguments as JSON").fill("{")
    await check(visit, "a result, and JSON with a mistake")


async def test_so_is_one_call(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    assert house.run("exec", "shown", "draw").returncode == 0
    await visit.go("calls")
    await page.get_by_role("table").get_by_role("link", name="draw").first.click()
    await expect(page.get_by_role("heading", name="draw")).to_be_visible()
    await check(visit, "one call")


async def test_so_is_what_a_search_finds_and_a_definition(visit: Visit) -> None:
    page = visit.page
    await visit.go("model/as-other/search")
    await page.get_by_role("searchbox").fill("take an order")
    await expect(page.get_by_role("group", name="the answer")).to_be_visible()
    await check(visit, "a search")
    await visit.go("model")
    await page.get_by_role("button", name="Definition as it is sent").first.click()
    await expect(page.get_by_role("group", name="the definition of")).to_be_visible()
    await check(visit, "a definition")
    await page.keyboard.press("Escape")


async def test_so_is_a_report(visit: Visit) -> None:
    page = visit.page
    await visit.go("setup/doctor")
    await page.get_by_role("button", name="Check without starting").click()
    await expect(page.get_by_role("heading", name="daemon")).to_be_visible(timeout=30_000)
    await check(visit, "a report")

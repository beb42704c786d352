"""Seventy servers on one page: all there, quick to look through; and a daemon that goes while one looks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.async_api import expect

from tests.live.page.houses import PageHouse, open_house
from tests.live.page.visits import NARROW, WIDER, Visit

pytestmark = [pytest.mark.anyio, pytest.mark.live]
SERVERS: Final = 70
RUNNING: Final = 3
SHOWN_WITHIN_S: Final = 5.0  # with all else that runs beside a test


@pytest.fixture(scope="module")
def house() -> Iterator[PageHouse]:
    with open_house() as house:
        off = {"command": "true", "disabled": True}
        servers = {f"server-{number:02}": off for number in range(RUNNING, SERVERS)}
        house.begin({f"server-{number:02}": house.shown for number in range(RUNNING)} | servers)
        yield house


async def test_all_are_there_and_found(visit: Visit) -> None:
    page = visit.page
    began = time.perf_counter()
    await visit.go("")
    its = page.get_by_role("region", name="Servers")
    cards = its.get_by_role("listitem")
    await expect(cards).to_have_count(SERVERS)
    assert time.perf_counter() - began < SHOWN_WITHIN_S
    await its.get_by_role("button", name="ready").click()
    await expect(cards).to_have_count(RUNNING)
    await its.get_by_role("button", name="ready").click()
    await its.get_by_role("searchbox", name="Filter servers").fill("69")
    await expect(cards).to_have_count(1)
    await expect(cards).to_contain_text("server-69")
    await its.get_by_role("searchbox", name="Filter servers").fill("")
    await page.set_viewport_size(NARROW)
    assert not await page.evaluate(WIDER)
    assert not await visit.violations()


async def test_the_page_is_one_script_and_one_style_sheet(visit: Visit) -> None:
    page = visit.page
    await page.goto("about:blank")
    await visit.go("")
    await expect(page.get_by_role("region", name="Servers")).to_be_visible()
    asked = await page.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
    named = [each.rpartition("/ui/static/")[2] for each in asked if "/ui/static/" in each]
    assert sorted(named) == ["page.css", "page.mjs", "vendor/inter.woff2"]
    assert await page.evaluate("performance.getEntriesByName('first-contentful-paint').length") == 1
    await expect(page.get_by_role("banner")).to_have_count(1)  # what was painted first has become the frame


async def test_a_daemon_that_has_gone_is_said_to_be(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    await visit.go("")
    status = page.get_by_role("banner").get_by_role("status").filter(has_text="Live")
    await expect(status).to_be_visible()
    assert house.pid is not None
    os.kill(house.pid, signal.SIGKILL)
    alert = page.get_by_role("alert").filter(has_text="The daemon does not answer.")
    await expect(alert).to_be_visible()
    await expect(alert).to_contain_text("mcpx ui")
    assert not await visit.violations()
    assert not await page.evaluate(WIDER)
    await page.goto("about:blank")  # it would ask for the daemon again and again
    # a browser says itself that it was not answered
    visit.wrong = [each for each in visit.wrong if "net::ERR_" not in each]

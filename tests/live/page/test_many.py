"""Seventy servers on one page: all there, quick to look through; and a daemon that goes while one looks."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.async_api import expect

from tests.live.page.houses import PageHouse, open_house
from tests.live.page.visits import NARROW, WIDER, Visit, tab_to

pytestmark = [pytest.mark.anyio, pytest.mark.live]
SERVERS: Final = 70
RUNNING: Final = 3
FAULTS: Final = {
    "key": {"command": "true", "env": {"KEY": "${NO_SUCH_KEY}"}},
    "odd": {"comand": "true"},
    "gone": {"command": "no-such-command-anywhere"},
    "ends": {"command": sys.executable, "args": ["-S", "-c", "raise SystemExit('no such database')"]},
    "ends-too": {"command": sys.executable, "args": ["-S", "-c", "raise SystemExit('no such table')"]},
}
MIDDLE: Final = 900
WIDTHS: Final = (1440, MIDDLE, 390)
PLACES: Final = (
    "",
    "model",
    "calls",
    "setup",
    "setup/add",
    "servers/server-00",
    *(
        f"servers/server-00/{tab}"
        for tab in ("tools/order", "resources", "prompts", "log", "timeline", "approvals", "entry")
    ),
    "servers/key/entry",
    "servers/odd",
)
MADE_MS: Final = 45_000
SHOWN_WITHIN_S: Final = 5.0  # with all else that runs beside a test


@pytest.fixture(scope="module")
def house() -> Iterator[PageHouse]:
    with open_house() as house:
        off = {"command": "true", "disabled": True}
        names = [f"server-{number:02}" for number in range(SERVERS - len(FAULTS))]
        servers = {name: house.shown if number < RUNNING else off for number, name in enumerate(names)}
        house.begin(servers | FAULTS)
        yield house


async def test_all_are_there_and_found(visit: Visit) -> None:
    page = visit.page
    began = time.perf_counter()
    await visit.go("")
    its = page.get_by_role("region", name="Servers")
    rows = its.get_by_role("table", name="Servers").locator("tbody").get_by_role("row")
    await expect(rows).to_have_count(SERVERS)
    assert time.perf_counter() - began < SHOWN_WITHIN_S
    await its.get_by_role("button", name="ready").click()
    await expect(rows).to_have_count(RUNNING)
    await its.get_by_role("button", name="ready").click()
    await its.get_by_role("searchbox", name="Filter servers").fill("64")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("server-64")
    await its.get_by_role("searchbox", name="Filter servers").fill("")
    await page.set_viewport_size(NARROW)
    assert not await page.evaluate(WIDER)
    assert not await visit.violations()


@pytest.mark.parametrize("place", PLACES)
async def test_it_is_for_everybody_in_three_widths_and_both_themes(visit: Visit, place: str) -> None:
    page = visit.page
    await visit.go(place)
    await expect(page.locator(".loading")).to_have_count(0)
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        assert not await page.evaluate(WIDER), width
        if place.startswith("servers/server-00/") and width != MIDDLE:
            continue  # test_look has it in such widths, and it shows nothing of other servers
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert not await visit.violations(of_colours=scheme == "dark"), (width, scheme)


async def test_a_fault_among_many_servers_is_cured_with_keys_alone(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    await visit.go("")
    faults = page.get_by_role("region", name="Faults")
    more = faults.get_by_text("and 1 more server")
    await tab_to(visit, more)
    await page.keyboard.press("Enter")
    cure = faults.get_by_role("link", name="Set NO_SUCH_KEY: key")
    await tab_to(visit, cure)
    await page.keyboard.press("Enter")
    field = page.get_by_role("textbox", name="NO_SUCH_KEY")
    await tab_to(visit, field)
    await page.keyboard.type("a value")
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    write = dialog.get_by_role("button", name="Write it")
    await expect(write).to_be_enabled(timeout=MADE_MS)
    await tab_to(visit, write)
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("status")).to_contain_text("Now: ", timeout=MADE_MS)
    assert house.server("key")["state"] != "needs setup"
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(field).to_have_count(0)


async def test_the_page_is_painted_before_its_one_script_has_come_and_run(visit: Visit) -> None:
    page = visit.page
    await page.goto("about:blank")
    await visit.go("")
    await expect(page.get_by_role("region", name="Servers")).to_be_visible()
    asked = await page.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
    named = [each.rpartition("/ui/static/")[2] for each in asked if "/ui/static/" in each]
    assert sorted(named) == ["page.mjs", "vendor/inter.woff2"]
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

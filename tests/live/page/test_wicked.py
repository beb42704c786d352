"""What servers and clients say stays text, wherever it is shown, and stays in its place, however long it is.

Each server says one thing everywhere: in names, titles, descriptions, schemas, results, errors, its log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from playwright.async_api import expect

from tests.live.page.houses import PageHouse, open_house
from tests.live.page.visits import NARROW, WIDER, Visit, visiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser

pytestmark = [pytest.mark.anyio, pytest.mark.live]
HTML: Final = (
    "<img src=x onerror=window.owned=1><script>window.owned=1</script>"
    "\"'><svg onload=window.owned=1></svg></textarea></title><a href=javascript:window.owned=1>x</a>"
)
WORDS: Final = {
    "html": HTML,
    "link": "javascript:window.owned=1",
    "code": "${window.owned=1} {{constructor.constructor('window.owned=1')()}} `;window.owned=1//",
    "bidi": "\u202egnp.exe \u2066\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u2069\u0000\u001b[31m\u200b",
    "long": "x" * 60_000,
}
FOREIGN: Final = """() => [
    ...document.querySelectorAll("img:not([src^='data:image/']), svg[onload], body script"),
    ...document.querySelectorAll("iframe, object, embed, base"),
    ...document.querySelectorAll("a:not([href^='#'])"),
].map((each) => each.outerHTML.slice(0, 200))"""
"""What no view has; its links lead to its own places."""


@pytest.fixture(scope="module")
def house() -> Iterator[PageHouse]:
    with open_house() as house:
        servers = {name: house.speaking(name, word=word) for name, word in WORDS.items()}
        house.begin(servers, pin="block", audit="full")
        for name, word in WORDS.items():
            assert house.run("exec", name, "echo", "text=once").returncode == 0, name
            house.speaking(name, word=word, changed=f"another {word}")
            assert house.run("restart", name).returncode == 0
        yield house


@pytest.fixture(scope="module")
async def opened(house: PageHouse, browser: Browser) -> AsyncIterator[Visit]:
    async with visiting(house, browser, viewport=NARROW) as visit:
        yield visit


async def check(visit: Visit, where: str) -> None:
    foreign = await visit.page.evaluate(FOREIGN)
    assert not foreign, f"{where}: {foreign}"
    wider = await visit.page.evaluate(WIDER)
    assert not wider, f"{where}: {wider}"
    assert await visit.page.evaluate("window.owned") is None, where


async def tried(visit: Visit, tool: str) -> None:
    """Run the tool that is looked at."""
    await visit.page.get_by_role("button", name="Run").click()
    outcome = visit.page.get_by_role("region", name="Result").or_(visit.page.get_by_role("alert"))
    await expect(outcome.first).to_be_visible()
    await check(visit, tool)


@pytest.mark.parametrize("name", WORDS)
async def test_every_part_of_a_server_is_text(visit: Visit, name: str) -> None:
    page = visit.page
    for tab in ("tools", "resources", "prompts", "log", "timeline", "approvals"):
        await visit.go(f"servers/{name}/{tab}")
        await expect(page.locator(".loading")).to_have_count(0)
        await check(visit, tab)
    await expect(page.get_by_text("calls itself")).to_be_visible()
    for tool in ("odd", "link", "fail"):
        await visit.go(f"servers/{name}/tools/{tool}")
        await tried(visit, tool)
    await visit.go(f"servers/{name}/tools/order")
    await page.get_by_label("item").fill(WORDS[name][:1000])
    await page.get_by_role("button", name="JSON Schema").click()
    await tried(visit, "order")
    for uri in ("notes%3A%2F%2Fone", "notes%3A%2F%2Fpage", "javascript%3Awindow.owned%3D1"):
        await visit.go(f"servers/{name}/resources/{uri}")
        await expect(page.get_by_text("Reading…")).to_have_count(0)
        await check(visit, uri)
    await visit.go(f"servers/{name}/prompts/greet")
    await page.get_by_role("button", name="Get it").click()
    await expect(page.get_by_text("Greet None")).to_be_visible()
    await check(visit, "greet")


async def test_it_is_seen_as_it_was_said(visit: Visit) -> None:
    page = visit.page
    for place in ("tools/echo", "approvals", "log", "prompts/greet", "resources/notes%3A%2F%2Fone"):
        await visit.go(f"servers/html/{place}")
        await expect(page.get_by_role("main")).to_contain_text("<img src=x onerror=window.owned=1>")
    await visit.go("servers/html/tools/fail")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("region", name="Result")).to_contain_text("<script>window.owned=1</script>")


async def test_so_is_all_else_on_the_page(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    async with house.attached() as served:
        about = {"name": HTML, "version": HTML, "title": HTML}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        await served.request("initialize", params)
        await served.send("notifications/initialized")
        for tool in (HTML, "echo"):
            asked = {"server": "html", "tool": tool, "arguments": {"text": HTML, HTML: HTML}}
            await served.request("tools/call", {"name": "exec", "arguments": asked})
        await visit.go("")
        await expect(page.get_by_role("region", name="Clients")).to_contain_text("<img")
        await check(visit, "overview")
        await visit.go("calls")
        await expect(page.get_by_role("table")).to_contain_text("<img")
        await check(visit, "calls")
        await page.get_by_role("table").get_by_role("link").first.click()
        await expect(page.get_by_role("dialog")).to_contain_text("<img")
        await check(visit, "one call")
        await page.keyboard.press("Escape")
        await visit.go("model")
        await expect(page.get_by_role("region", name="Clients")).to_contain_text("<img")
        await check(visit, "model")
        await page.get_by_role("link", name="What a search finds").click()
        await page.get_by_role("searchbox").fill(HTML)
        await expect(page.get_by_role("group", name="the answer")).to_be_visible()
        await check(visit, "search")
        await visit.go("setup/doctor")
        await page.get_by_role("button", name="Check without starting").click()
        await expect(page.get_by_role("heading", name="daemon")).to_be_visible(timeout=30_000)
        await check(visit, "doctor")
        await visit.go("setup")
        await check(visit, "setup")

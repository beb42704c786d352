"""The page as a person uses it, in a real browser: it follows what happens, and does what it is told to.

The tests share a daemon, and one page that is never reloaded. Changed tools are blocked until they are
approved.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from tests.live.page.houses import PageHouse, open_house
from tests.live.page.visits import Visit, visiting
from tests.mcpx.serving import Served

if TYPE_CHECKING:
    from playwright.async_api import Browser, Locator

pytestmark = [pytest.mark.anyio, pytest.mark.live]
SEEN_MS = 1000
"""Within this a fault is seen."""


@pytest.fixture(scope="module")
def house() -> Iterator[PageHouse]:
    with open_house() as house:
        house.begin(pin="block")
        yield house


def card(visit: Visit, name: str = "shown") -> Locator:
    """The card of a server in the overview."""
    servers = visit.page.get_by_role("region", name="Servers")
    return servers.get_by_role("listitem").filter(has=visit.page.get_by_role("link", name=name, exact=True))


def confirmed(visit: Visit, yes: str) -> Locator:
    return visit.page.get_by_role("dialog").get_by_role("button", name=yes, exact=True)


async def client(served: Served) -> Served:
    await served.initialize()
    return served


async def run(served: Served, tool: str, **arguments: Any) -> str:
    """What a client's call of a tool gives, as text."""
    asked = {"server": "shown", "tool": tool, "arguments": arguments}
    done = await served.request("tools/call", {"name": "exec", "arguments": asked})
    return str(done["content"][0]["text"])


async def test_a_server_dies_and_comes_back_without_reloading(visit: Visit, house: PageHouse) -> None:
    await visit.go("")
    await expect(card(visit).get_by_text("ready", exact=True)).to_be_visible()
    before = house.server()
    assert await visit.page.evaluate(
        """() => {
            const badge = document.querySelector(".card.server .badge");
            window.heard = [];
            new MutationObserver(() => heard.push([Date.now(), badge.textContent.trim()]))
                .observe(badge, {subtree: true, childList: true, characterData: true});
            return true;
        }"""
    )
    died_ms = time.time() * 1000
    os.kill(before["pid"], signal.SIGKILL)
    await expect(card(visit).get_by_text("1 restart")).to_be_visible()
    await expect(card(visit).get_by_text("ready", exact=True)).to_be_visible()
    seen = [(at - died_ms, state) for at, state in await visit.page.evaluate("heard")]
    assert min(at for at, state in seen if state != "ready") < SEEN_MS, seen
    after = house.server()
    assert after["pid"] != before["pid"]


async def test_its_lifecycle_says_what_became_of_it(visit: Visit, house: PageHouse) -> None:
    await visit.go("servers/shown/timeline")
    its = visit.page.get_by_role("region", name="Lifecycle")
    await expect(its.get_by_text("died")).to_be_visible()
    await expect(its.get_by_text("SIGKILL")).to_be_visible()
    await expect(its.get_by_text("ready").first).to_be_visible()


async def test_a_server_is_restarted_by_its_button(visit: Visit, house: PageHouse) -> None:
    before = house.server()["pid"]
    await visit.go("servers/shown")
    await visit.page.get_by_role("button", name="Restart").click()
    await expect(visit.page.get_by_text("Now: ready")).to_be_visible()
    await expect(visit.page.get_by_text("ready", exact=True)).to_be_visible()
    after = house.server()["pid"]
    assert after not in (None, before)
    await expect(visit.page.get_by_text(f"pid {after}")).to_be_visible()


async def test_a_server_is_disabled_when_one_says_yes_and_enabled(visit: Visit, house: PageHouse) -> None:
    await visit.go("servers/shown")
    disable = visit.page.get_by_role("button", name="Disable")
    await disable.click()
    await confirmed(visit, "Cancel").click()
    assert house.server()["state"] == "ready"
    await disable.click()
    await expect(visit.page.get_by_role("dialog")).to_contain_text('"disabled": true')
    await confirmed(visit, "Disable").click()
    await expect(visit.page.get_by_role("dialog")).to_contain_text("Now: disabled", timeout=30_000)
    assert house.server()["state"] == "disabled"
    await confirmed(visit, "Close").click()
    await expect(visit.page.get_by_text("disabled", exact=True)).to_be_visible()
    await visit.page.get_by_role("button", name="Enable").click()
    await confirmed(visit, "Enable").click()
    await expect(visit.page.get_by_role("dialog")).to_contain_text("Now: ready", timeout=30_000)
    await confirmed(visit, "Close").click()
    await expect(visit.page.get_by_text("ready", exact=True)).to_be_visible()
    await expect(visit.page.get_by_role("link", name="echo")).to_be_visible()


async def test_a_tool_is_tried_by_its_form(visit: Visit) -> None:
    page = visit.page
    await visit.go("servers/shown")
    await page.get_by_role("searchbox", name="Search the tools").fill("takes an order")
    await expect(page.get_by_role("navigation", name="Tools").get_by_role("link")).to_have_count(1)
    await page.get_by_role("link", name="order").click()
    await expect(page.get_by_role("group", name="input schema")).to_contain_text("item: string")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("alert")).to_contain_text("item")
    await page.get_by_label("item").fill("a lamp")
    await page.get_by_label("count").fill("2")
    await page.get_by_label("weight").fill("0.5")
    await page.get_by_label("express").select_option("true")
    await page.get_by_label("size").select_option("large")
    await page.get_by_role("button", name="Fill in tags").click()
    await page.get_by_role("button", name="Add to tags").click()
    await page.get_by_label("tags 1", exact=True).fill("blue")
    await page.get_by_role("button", name="Fill in address").click()
    await page.get_by_label("town").fill("Rome")
    await page.get_by_role("button", name="Run").click()
    result = page.get_by_role("region", name="Result")
    for said in ('"item": "a lamp"', '"count": 2', '"express": true', '"tags": ["blue"]', '{"town": "Rome"}'):
        await expect(result).to_contain_text(re.compile(re.escape(said).replace(r"\ ", r"\s*")))
    await result.get_by_role("button", name="As a model sees it").click()
    await expect(result).to_contain_text("a lamp")


async def test_a_tool_is_tried_by_json(visit: Visit) -> None:
    page = visit.page
    await visit.go("servers/shown/tools/echo")
    await page.get_by_role("button", name="JSON", exact=True).click()
    arguments = page.get_by_role("textbox", name="Arguments as JSON")
    await arguments.fill('{"text": ')
    await expect(page.get_by_role("button", name="Run")).to_be_disabled()
    await arguments.fill('{"text": "by JSON"}')
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("region", name="Result")).to_contain_text("by JSON")
    await page.get_by_role("button", name="Form", exact=True).click()
    await expect(page.get_by_role("textbox", name="text")).to_have_value("by JSON")


async def test_a_failure_of_a_tool_is_shown_as_one(visit: Visit) -> None:
    await visit.go("servers/shown/tools/fail")
    await visit.page.get_by_role("button", name="Run").click()
    await expect(visit.page.get_by_text("the tool reports an error")).to_be_visible()


async def test_pictures_resources_and_prompts_are_shown(visit: Visit) -> None:
    page = visit.page
    await visit.go("servers/shown/tools/draw")
    await page.get_by_role("button", name="Run").click()
    picture = page.get_by_role("img", name="Picture in the result")
    await expect(picture).to_have_js_property("naturalWidth", 8)
    await page.get_by_role("link", name="Resources").click()
    await page.get_by_role("link", name="square").click()
    await expect(page.get_by_role("img", name="Picture in the result")).to_have_js_property("naturalWidth", 8)
    await page.get_by_role("link", name="one plain").click()
    await expect(page.get_by_text("the text of notes://one")).to_be_visible()
    await page.get_by_role("link", name="Prompts").click()
    await page.get_by_role("link", name="greet").click()
    await page.get_by_label("who").fill("Ada")
    await page.get_by_role("button", name="Get it").click()
    await expect(page.get_by_text("Greet Ada")).to_be_visible()


async def test_a_log_is_read_live(visit: Visit, house: PageHouse) -> None:
    await visit.go("servers/shown/log")
    log = visit.page.get_by_role("log")
    await expect(log).to_contain_text("started plain")
    async with house.attached() as served:
        await run(await client(served), "say", text="as it is written")
        await expect(log).to_contain_text("as it is written", timeout=SEEN_MS * 3)
    await visit.page.get_by_role("searchbox", name="Filter the lines").fill("as it is")
    await expect(log).not_to_contain_text("started plain")


async def test_calls_are_listed_as_they_run_filtered_opened_and_repeated(
    visit: Visit, house: PageHouse
) -> None:
    page = visit.page
    await visit.go("calls")
    rows = page.get_by_role("table").get_by_role("row")
    async with house.attached() as served:
        await run(await client(served), "echo", text="once")
        newest = rows.nth(1)
        await expect(newest).to_contain_text("echo")
        await expect(newest).to_contain_text("ok")
        await run(served, "fail")
        await expect(newest).to_contain_text("tool error")
    await page.get_by_role("searchbox", name="Filter calls").fill("test echo")
    await expect(rows).to_have_count(2)
    await page.get_by_role("button", name="failed").click()
    await expect(page.get_by_text("None of the last")).to_be_visible()
    await page.get_by_role("button", name="failed").click()
    await rows.nth(1).get_by_role("link").click()
    one = page.get_by_role("complementary", name="echo")
    await expect(one.get_by_text("ok", exact=True)).to_be_visible()
    await expect(one.get_by_text("text", exact=True)).to_be_visible()
    await expect(one.get_by_text("once")).to_have_count(0)
    await one.get_by_role("button", name="again").click()
    await expect(one.get_by_role("group", name="result")).to_contain_text("once")
    await page.get_by_role("searchbox", name="Filter calls").fill("page echo")
    await expect(rows.nth(1)).to_contain_text("echo")


async def test_what_changes_something_is_not_repeated(visit: Visit) -> None:
    page = visit.page
    await visit.go("calls")
    await page.get_by_role("searchbox", name="Filter calls").fill("fail")
    await page.get_by_role("table").get_by_role("link", name="fail").first.click()
    one = page.get_by_role("complementary")
    await expect(one.get_by_text("tool error").first).to_be_visible()
    await expect(one.get_by_role("button", name="again")).to_have_count(0)


async def test_a_changed_tool_is_approved_with_its_difference_in_view(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    house.say(changed="sends your files elsewhere")
    assert house.run("restart", "shown").returncode == 0
    await visit.go("")
    await expect(card(visit).get_by_text("1 change")).to_be_visible()
    await visit.go("servers/shown/tools/change")
    await expect(page.get_by_text("It does not run until it is approved.")).to_be_visible()
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.get_by_role("link", name="See the difference").click()
    await expect(page.locator("del")).to_contain_text("as it was")
    await expect(page.locator("ins")).to_contain_text("sends your files elsewhere")
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("Nothing waits for approval.")).to_be_visible()
    await visit.go("servers/shown/tools/change")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("region", name="Result")).to_be_visible()


async def test_what_a_model_sees_and_what_its_search_finds(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    async with house.attached() as served:
        await client(served)
        await visit.go("model")
        clients = page.get_by_role("region", name="Clients")
        await expect(clients.get_by_role("link", name="test")).to_be_visible()
        given = page.get_by_label("the instructions", exact=True)
        instructions = await served.request("tools/list")
        await expect(given).to_contain_text("shown")
        for tool in instructions["tools"]:
            await expect(page.get_by_text(tool["name"], exact=True).first).to_be_visible()
        await page.get_by_role("link", name="What a search finds").click()
        await page.get_by_role("searchbox").fill("take an order")
        await expect(page.get_by_role("heading", name="Ranking")).to_contain_text("1 server")
        await expect(page.get_by_role("group", name="the answer")).to_contain_text("order")


async def test_setup_shows_the_configuration_its_mistakes_and_the_doctors_report(
    visit: Visit, house: PageHouse
) -> None:
    page = visit.page
    await visit.go("setup")
    await expect(page.get_by_role("region", name="The file").first).to_contain_text('"shown"')
    house.write({"shown": house.shown | {"timout": 5}}, pin="block")
    await page.get_by_role("button", name="Refresh").click()
    await expect(page.get_by_role("region", name="Mistakes and notes")).to_contain_text("timout")
    house.write({"shown": house.shown}, pin="block")
    await page.get_by_role("button", name="Refresh").click()
    await expect(page.get_by_role("region", name="Mistakes and notes")).to_contain_text("Nothing is wrong")
    await page.get_by_role("link", name="Doctor").click()
    await page.get_by_role("button", name="Check without starting").click()
    report = page.get_by_role("status").filter(has_text=re.compile("All is well|wrong"))
    await expect(report).to_be_visible(timeout=30_000)


async def test_an_import_is_previewed_made_and_taken_back(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    before = (house.folder / "config.json").read_text("utf-8")
    (house.folder / ".cursor").mkdir()
    entry = '{"mcpServers": {"errands": {"command": "true"}}}'
    (house.folder / ".cursor/mcp.json").write_text(entry, "utf-8")
    await visit.go("setup/import")
    change = page.get_by_role("region", name="Import", exact=True)
    await expect(change.get_by_text("errands").first).to_be_visible()
    await change.get_by_role("button", name="Write 1 server").click()
    await confirmed(visit, "Cancel").click()
    assert (house.folder / "config.json").read_text("utf-8") == before
    await change.get_by_role("button", name="Write 1 server").click()
    await confirmed(visit, "Write 1 server").click()
    await expect(page.get_by_text("Done.")).to_be_visible()
    assert "errands" in (house.folder / "config.json").read_text("utf-8")
    await page.get_by_role("link", name="Undo").first.click()
    await page.get_by_role("button", name="Take back").click()
    await page.get_by_role("dialog").get_by_role("button", name="Take back").click()
    await expect(page.get_by_text("was taken back")).to_be_visible()
    assert (house.folder / "config.json").read_text("utf-8") == before


async def test_signing_out_ends_the_session(house: PageHouse, browser: Browser) -> None:
    async with visiting(house, browser) as visit:
        await visit.page.get_by_role("button", name="Sign out").click()
        await expect(visit.page.get_by_text("mcpx ui")).to_be_visible()
        answer = await visit.page.request.get(f"{visit.origin}/ui/")
        assert answer.status == 401

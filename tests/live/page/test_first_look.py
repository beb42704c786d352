"""A page without servers leads on, and one with faults shows them first; of nothing, nothing is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.async_api import expect

from tests.live.page.houses import PageHouse, open_house
from tests.live.page.visits import Visit

pytestmark = [pytest.mark.anyio, pytest.mark.live]


@pytest.fixture(scope="module")
def house() -> Iterator[PageHouse]:
    with open_house() as house:
        house.begin({})
        yield house


async def test_without_servers_it_says_how_to_get_some(visit: Visit) -> None:
    page = visit.page
    await visit.go("")
    servers = page.get_by_role("region", name="Servers")
    await expect(servers).to_contain_text("mcpx add NAME -- COMMAND")
    await expect(page.get_by_role("heading", name="Latency")).to_be_hidden()  # nothing to draw
    assert not await visit.violations()
    await servers.get_by_role("link", name="Import the servers of your AI clients").click()
    await expect(page.get_by_role("region", name="Import", exact=True)).to_be_visible()


async def test_faults_come_first_and_a_server_without_tools_offers_no_choice(
    visit: Visit, house: PageHouse
) -> None:
    page = visit.page
    broken = {"command": "no-such-command-anywhere"}
    key = {"command": "true", "env": {"KEY": "${NO_SUCH_KEY}"}}
    off = {"command": "true", "disabled": True}
    house.write({"shown": house.shown, "key": key, "off": off, "broken": broken})
    assert house.run("reload").returncode == 0
    await visit.go("")
    names = page.get_by_role("region", name="Servers").get_by_role("heading", level=3)
    await expect(names).to_have_text(["broken", "key", "shown", "off"])
    await expect(page.get_by_role("heading", name="Latency")).to_be_visible()
    for part, said in (("", "not listed"), ("/resources", "no resources"), ("/prompts", "no prompts")):
        await visit.go(f"servers/off{part}")
        main = page.get_by_role("main")
        await expect(main).to_contain_text(said)
        await expect(main).not_to_contain_text("Choose a")


async def test_only_what_runs_can_be_copied_from_the_doctors_report(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    key = {"command": "true", "env": {"KEY": "${NO_SUCH_KEY}"}}
    house.write({"shown": house.shown, "broken": {"command": "no-such-command-anywhere"}, "key": key})
    await visit.go("setup/doctor")
    await page.get_by_role("button", name="Check without starting").click()
    await expect(page.get_by_role("status").filter(has_text="wrong")).to_be_visible(timeout=30_000)
    todo = page.locator(".findings li").filter(has_text="To do:")
    advised = {each: await row(todo, each) for each in ("broken", "key")}
    assert advised["broken"] == ([], 0)  # a sentence
    assert advised["key"] == ([f"mcpx restart key --config {house.config}"], 1)


async def row(todo, name):  # type: ignore[no-untyped-def]
    """The commands in the advice on a server, and the number of boxes to copy from."""
    its = todo.filter(has_text=name).first
    return await its.locator("code").all_text_contents(), await its.get_by_role("button").count()

"""A page without servers leads on, and one with faults shows them first; of nothing, nothing is asked."""

from __future__ import annotations

import sys
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


async def test_a_fault_has_its_cure_on_it_and_every_fault_can_be_reached(
    visit: Visit, house: PageHouse
) -> None:
    page = visit.page
    program = house.folder / "comes-later"
    later = house.shown | {"command": str(program)}
    key = {"command": "true", "env": {"KEY": "${NO_SUCH_KEY}"}}
    broken = {f"broken-{number}": {"command": "no-such-command-anywhere"} for number in range(5)}
    house.write({"later": later, "key": key, "odd": {"comand": "true"}, **broken})
    assert house.run("reload").returncode == 0
    await visit.go("")
    faults = page.get_by_role("region", name="Faults")
    await faults.get_by_text("and 4 more servers").click()
    await expect(faults.get_by_role("listitem")).to_have_count(8)
    for name in ("later", "key", "odd", *broken):
        row = faults.get_by_role("listitem").filter(has=page.get_by_role("link", name=name, exact=True))
        await expect(row).to_be_visible()
        await expect(row.get_by_role("link", name=f"Log of {name}")).to_be_visible()
    await expect(faults.get_by_role("link", name="Correct it: odd")).to_be_visible()
    await expect(faults.get_by_role("link", name="Set NO_SUCH_KEY: key")).to_be_visible()
    await faults.get_by_role("button", name="Try again: key").click()
    await expect(faults.get_by_role("alert")).to_contain_text("NO_SUCH_KEY")
    program.symlink_to(sys.executable)
    await faults.get_by_role("button", name="Restart: later").click()
    servers = page.get_by_role("region", name="Servers")
    card = servers.get_by_role("listitem").filter(has=page.get_by_role("link", name="later", exact=True))
    await expect(card).to_contain_text("ready", timeout=30_000)
    assert house.server("later")["state"] == "ready"
    await expect(faults.get_by_role("listitem")).to_have_count(7)
    await faults.get_by_role("link", name="Log of broken-0").click()
    await expect(page.get_by_role("heading", name="broken-0", exact=True)).to_be_visible()


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

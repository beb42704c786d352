"""A call that runs, beside hundreds of quick ones: on top of the list all the time, and its end is listed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.async_api import expect

from mcpx.core.events.call_watch import QUICK_MS
from tests.live.page.houses import PageHouse, open_house
from tests.live.page.visits import Visit
from tests.mcpx.scripted import entry

pytestmark = [pytest.mark.anyio, pytest.mark.live]
QUICK = 300


@pytest.fixture(scope="module")
def house() -> Iterator[PageHouse]:
    with open_house() as house:
        house.begin({"slow": entry(), "quick": entry()}, start="eager", startup_wait=20)
        yield house


async def test_a_call_that_runs_is_on_top_until_it_ends_and_its_end_is_listed(
    visit: Visit, house: PageHouse
) -> None:
    page = visit.page
    await visit.go("calls")
    rows = page.get_by_role("table").get_by_role("row")
    running = page.get_by_role("button", name="running")
    async with house.attached() as slow, house.attached() as quick:
        await slow.initialize()
        await quick.initialize()
        hang = {"server_name": "slow", "tool_name": "hang"}
        request = await slow.ask("tools/call", {"name": "exec", "arguments": hang})
        slow_from = time.monotonic() + 1.5 * QUICK_MS / 1000
        await expect(rows.nth(1)).to_contain_text("hang")
        for number in range(QUICK):
            given = {"text": str(number)}
            await quick.call("exec", server_name="quick", tool_name="echo", arguments=given)
        await expect(rows.nth(2)).to_contain_text("echo")
        for place in ("", "calls"):  # left, and opened again
            await visit.go(place)
        await visit.hop("", "calls")
        await expect(rows.nth(1)).to_contain_text("hang")
        await expect(rows.nth(1)).to_contain_text("running")
        await expect(running).to_contain_text("1")
        called = 0
        while called < QUICK or time.monotonic() < slow_from:  # the end of a quick call may be pushed out
            await quick.call("exec", server_name="quick", tool_name="echo", arguments={"text": str(called)})
            called += 1
        await expect(rows.nth(1)).to_contain_text("hang")
        await quick.call("exec", server_name="slow", tool_name="release", arguments={})
        await slow.answer(request)
        await expect(running).to_contain_text("0")
        ended = rows.filter(has_text="hang")
        await expect(ended).to_have_count(1)
        await expect(ended).to_contain_text("ok")
        for number in range(QUICK):
            given = {"text": str(number)}
            await quick.call("exec", server_name="quick", tool_name="echo", arguments=given)
        await visit.go("")
        await visit.go("calls")
        await expect(ended).to_have_count(
            1
        )  # it took longer than a second, and quick ones do not push it out
        await expect(page.get_by_role("button", name="refused")).to_contain_text("0")

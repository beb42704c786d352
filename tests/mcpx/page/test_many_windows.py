"""More windows than a browser has connections to a server, in a real Chromium: each of them works."""

import pytest

from mcpx.page.events import MAX_OF_SESSION
from tests.mcpx.page.browsing import NEEDS_BROWSER, browsing
from tests.mcpx.page.visiting import Visitor, served

pytestmark = [pytest.mark.anyio, *NEEDS_BROWSER]
CONNECTIONS = 6


async def test_a_window_that_waits_goes_on_when_somebody_turns_to_it(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch) as page, browsing() as context:
        link = await page.link()
        window = await context.new_page()
        await window.goto(link)
        await window.wait_for_url("**/ui/")
        windows = [window]
        for _ in range(CONNECTIONS):
            windows.append(await context.new_page())
            await windows[-1].goto(f"{Visitor(link).origin}/ui/", wait_until="commit")
            await windows[-1].get_by_text("Live", exact=True).wait_for()  # the streams come in this order
        for waits in windows[:-MAX_OF_SESSION]:
            await waits.get_by_text("This window waits.").wait_for()
        for runs in windows[-MAX_OF_SESSION:]:
            await runs.get_by_text("Live", exact=True).wait_for()
        await windows[0].bring_to_front()
        await windows[0].locator("main").click()
        await windows[0].get_by_text("Live", exact=True).wait_for()
        await windows[-MAX_OF_SESSION].get_by_text("This window waits.").wait_for()
        assert len(page.served.streams) == MAX_OF_SESSION

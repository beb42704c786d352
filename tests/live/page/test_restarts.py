"""The same tab over restarts of the daemon, orderly and by SIGKILL, and over an upgrade, in a real browser.

A client stays attached meanwhile, as one does. `MCPX_PAGE_RESTARTS=10` plays more than the suite does.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import pytest
from playwright.async_api import expect

import mcpx
from tests.live.page.houses import PageHouse, open_house
from tests.live.page.visits import Visit, visiting
from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.serving import Served, environment

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = [pytest.mark.anyio, pytest.mark.live]
RESTARTS: Final = int(os.environ.get("MCPX_PAGE_RESTARTS", "3"))
BACK_MS: Final = 30_000
NEWER: Final = "99.0.0"
RUN: Final = "import sys; sys.path.insert(1, {folder!r}); from mcpx.__main__ import main; main()"


@pytest.fixture
def house() -> Iterator[PageHouse]:
    with open_house() as house:
        house.begin()
        yield house


@pytest.fixture
async def visit(house: PageHouse, browser: Browser) -> AsyncIterator[Visit]:
    async with visiting(house, browser) as visit:
        await visit.page.evaluate("window.sinceTheStart = true")
        yield visit
        # a browser says itself that it was not answered, or was cut off
        visit.wrong = [each for each in visit.wrong if "net::ERR_" not in each and "404" not in each]


async def is_live(visit: Visit, house: PageHouse) -> None:
    """The tab that was opened at first shows the daemon that runs now."""
    link_state = visit.page.get_by_role("banner").get_by_role("status").first
    await expect(link_state).to_have_text("Live", timeout=BACK_MS)
    assert await visit.page.evaluate("window.sinceTheStart")
    await visit.go("")
    await expect(visit.page.get_by_text(f"pid {house.pid}", exact=True)).to_be_visible(timeout=BACK_MS)
    await expect(visit.page.get_by_role("alert")).to_have_count(0)


async def calls(visit: Visit, client: Served, word: str) -> None:
    """A call that a client makes now appears."""
    asked = {"server": "shown", "tool": "echo", "arguments": {"text": word}}
    done = await client.request("tools/call", {"name": "exec", "arguments": asked})
    assert word in done["content"][0]["text"]
    await visit.go("calls")
    row = visit.page.get_by_role("row").filter(has_text="echo").first
    await expect(row).to_be_visible()
    await row.get_by_role("link").first.click()
    await expect(visit.page.get_by_role("complementary")).to_contain_text("shown", timeout=BACK_MS)


async def in_thread(*command: Any) -> None:
    """Run something that blocks, while the browser is read."""
    function, *arguments = command
    done = await anyio.to_thread.run_sync(function, *arguments)
    assert done is None or done.returncode == 0, done.stderr


async def test_a_tab_lives_through_restarts_of_the_daemon(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    async with house.attached() as client:
        await client.initialize()
        for number in range(RESTARTS):
            before = house.pid
            assert before is not None
            if number % 2:
                os.kill(before, signal.SIGKILL)  # the client's shim starts the next one
                await expect(
                    page.get_by_role("alert").filter(has_text="What you see is how it was")
                ).to_be_visible()
                await until(lambda before=before: house.pid not in (None, before))
            else:
                await in_thread(house.run, "daemon", "restart")
            assert house.pid != before
            await is_live(visit, house)
            await calls(visit, client, f"after restart {number}")


async def test_a_tab_waits_for_a_daemon_that_was_stopped_and_a_new_link_opens_one_beside_it(
    visit: Visit, house: PageHouse
) -> None:
    page = visit.page
    await visit.go("servers/shown")
    await expect(page.get_by_role("link", name="echo")).to_be_visible()
    await in_thread(house.run, "daemon", "stop")
    lost = page.get_by_role("alert").filter(has_text="What you see is how it was")
    await expect(lost).to_be_visible()
    await expect(lost).to_contain_text("mcpx ui")
    await expect(page.get_by_role("link", name="echo")).to_be_visible()  # as it was
    link = (await anyio.to_thread.run_sync(house.run, "ui", "--print")).stdout.strip()
    assert link.startswith(f"{visit.origin}/ui/open?")
    beside = await page.context.new_page()
    await beside.goto(link)
    await beside.get_by_role("heading", name="Overview").wait_for()
    await beside.close()
    await is_live(visit, house)
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_text("Signed out")).to_be_visible()
    await in_thread(house.run, "daemon", "restart")
    again = await page.request.get(f"{visit.origin}/ui/", fail_on_status_code=False)
    assert again.status == 401
    link = (await anyio.to_thread.run_sync(house.run, "ui", "--print")).stdout.strip()
    beside = await page.context.new_page()
    await beside.goto(link)
    await is_live(visit, house)  # the window that was signed out continues, as it was


async def test_a_tab_lives_through_an_upgrade_and_says_so(visit: Visit, house: PageHouse) -> None:
    page = visit.page
    await visit.go("")
    await in_thread(house.run, "daemon", "stop")
    with newer_daemon(house):
        await is_live(visit, house)
        await expect(page.get_by_text(f"version {NEWER}", exact=True)).to_be_visible()
        updated = page.get_by_role("status").filter(has_text=f"MCPX is now version {NEWER}.")
        await expect(updated).to_be_visible()
        assert not await visit.violations()
        await updated.get_by_role("button", name="Reload").click()
        await expect(updated).to_have_count(0)
        await expect(page.get_by_text(f"version {NEWER}", exact=True)).to_be_visible()
        assert await page.evaluate("window.sinceTheStart") is None


@contextmanager
def newer_daemon(house: PageHouse) -> Iterator[None]:
    """A daemon of another version of MCPX, as an upgrade leaves it."""
    folder = house.folder / "newer"
    package = Path(mcpx.__file__).parent
    shutil.copytree(package, folder / "mcpx", ignore=shutil.ignore_patterns("__pycache__"))
    version = folder / "mcpx/version.py"
    version.write_text(version.read_text().replace(f'"{mcpx.__version__}"', f'"{NEWER}"'))
    command = [sys.executable, "-P", "-c", RUN.format(folder=str(folder))]
    line = [*command, "daemon", "run", "--config", house.config]
    with subprocess.Popen(line, env=environment(house.folder), stderr=subprocess.DEVNULL) as daemon:
        try:
            yield
        finally:
            daemon.terminate()


async def test_a_program_that_has_the_port_by_now_is_not_taken_for_the_daemon(
    visit: Visit, house: PageHouse
) -> None:
    """It answers whatever it likes, and is asked nothing but whether it is the daemon, in whatever view."""
    port = urlsplit(visit.origin).port
    assert port is not None
    await visit.go("")
    await in_thread(house.run, "daemon", "stop")
    asked: list[bytes] = []

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            asked.append((await stream.receive()).partition(b" HTTP/")[0])
            body = b'{"proof": "%s"}' % (b"0" * 64)
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
                body
            )
            await stream.send(head + body)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, answer)
        await until(lambda: len(asked) > 2)
        await visit.go("calls")
        await until(lambda: len(asked) > 4)
        await in_thread(house.run, "daemon", "start")
        link = (await anyio.to_thread.run_sync(house.run, "ui", "--print")).stdout.strip()
        assert urlsplit(link).port != port
        await expect(
            visit.page.get_by_role("alert").filter(has_text="What you see is how it was")
        ).to_be_visible()
        tasks.cancel_scope.cancel()
    assert {each.partition(b"?")[0] for each in asked} == {b"GET /ui/api/here"}
    assert await visit.page.evaluate("window.sinceTheStart")

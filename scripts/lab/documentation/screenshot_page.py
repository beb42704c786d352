"""Takes the pictures of the page: overview, server and calls, wide and narrow, light and dark, as PNGs.

Called by `screenshot.py`. Everything shown is real: a daemon with a state folder of its own, the bundled demo
servers, one whose command does not exist and one whose variable is not set, three clients that work for some
minutes (`screenshot_clients.py`), a server that is killed meanwhile, and Chromium, which opens the page by
`mcpx ui --print`. Times, processes and latencies are those of the moment.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from PIL import Image

from scripts.lab.documentation.regions import ROOT
from scripts.lab.documentation.screenshot_clients import CLIENTS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WORK_S: Final = 230.0  # with the time for the pictures the shortest span of the curves, which is five minutes
KILLED_AT: Final = 0.62  # of that
COLOURS: Final = 256  # of a PNG: enough for text, curves and a shadow
NOTED_S: Final = 15.0  # in which the list of calls fills with calls whose tokens were counted for the page
MEASURED: Final = re.compile(r"CPU\s*(<|\d)")
PROGRAMS: Final = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
SIZES: Final[dict[str, dict[str, Any]]] = {
    "wide": {"viewport": {"width": 1600, "height": 900}},
    "narrow": {"viewport": {"width": 360, "height": 780}, "device_scale_factor": 2},
}
TOOLS: Final = {"command": sys.executable, "args": ["-P", "-m", "mcpx.demo.tools"]}
KNOWLEDGE: Final = ["-P", "-m", "mcpx.demo.knowledge"]
SERVERS: Final[dict[str, Any]] = {
    "shop": TOOLS,
    "handbook": {"command": sys.executable, "args": [*KNOWLEDGE, "--folder", str(ROOT / "docs")]},
    "lab": TOOLS,
    "notes": {"command": sys.executable, "args": ["-P", "-m", "mcpx.demo.changing"]},
    "leaflets": {"command": sys.executable, "args": KNOWLEDGE},
    "browser": {"command": "browser-mcp-server", "args": ["--headless"]},
    "tickets": {"url": "https://tickets.example.com/mcp", "headers": {"Authorization": "${TICKETS_TOKEN}"}},
}
RUNNING: Final = ("shop", "handbook", "lab", "notes", "leaflets")


class Daemon(Protocol):
    """What is needed of a daemon in a folder of its own."""

    environ: dict[str, str]

    def run(self, *words: str) -> str: ...
    def status(self) -> dict[str, dict[str, Any]]: ...
    def wait(self, **states: str) -> None: ...


def record(daemon: Daemon) -> dict[str, bytes]:
    """The PNGs by the names of their files. `daemon` has SERVERS, and does not run."""
    daemon.run("daemon", "start")
    daemon.wait(**dict.fromkeys(RUNNING, "ready"))
    daemon.run("daemon", "stop")
    daemon.run("daemon", "start")  # now its servers are known, and sleep until they are needed
    try:
        with _clients(daemon):
            time.sleep(WORK_S * KILLED_AT)
            os.kill(daemon.status()["lab"]["pid"], signal.SIGKILL)
            time.sleep(WORK_S * (1 - KILLED_AT))
            return _pictures(daemon)
    finally:
        daemon.run("daemon", "stop")


@contextmanager
def _clients(daemon: Daemon) -> Iterator[None]:
    command = [sys.executable, "-m", "scripts.lab.documentation.screenshot_clients"]
    started = [subprocess.Popen([*command, name], env=daemon.environ, cwd=ROOT) for name in CLIENTS]
    try:
        yield
    finally:
        for client in started:
            client.terminate()
            client.wait()


def _pictures(daemon: Daemon) -> dict[str, bytes]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only for these pictures

    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    pictures = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            for size in SIZES:
                pictures |= _of_size(browser, daemon, size)
        finally:
            browser.close()
    return pictures


def _of_size(browser: Browser, daemon: Daemon, size: str) -> dict[str, bytes]:
    """Each view in both themes."""
    page = browser.new_page(**SIZES[size], reduced_motion="reduce", locale="en-GB")
    page.goto(daemon.run("ui", "--print").strip())
    page.locator("nav").first.wait_for()
    pictures = {}
    for view, show in {"overview": _overview, "server": _server, "calls": _calls}.items():
        show(page, size)
        page.mouse.move(0, 0)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            page.evaluate("document.fonts.ready")
            pictures[f"page-{view}-{size}-{theme}.png"] = _small(page.screenshot())
    page.context.close()
    return pictures


def _overview(page: Page, _size: str) -> None:
    page.goto(page.url.partition("#")[0] + "#/")
    page.locator(".curve-plot svg").first.wait_for()
    page.locator(".server .figure", has_text=MEASURED).first.wait_for()  # after some seconds


def _server(page: Page, _size: str) -> None:
    """A tool of the shop, tried."""
    page.goto(page.url.partition("#")[0] + "#/servers/shop/tools/list_orders")
    page.get_by_label("status").select_option(label="open")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("answered").wait_for()
    page.locator(".figure", has_text=MEASURED).wait_for()
    page.evaluate("scrollTo(0, 0)")


def _calls(page: Page, size: str) -> None:
    """The list, and beside it one call whose result was cut, where there is room."""
    page.goto(page.url.partition("#")[0] + "#/calls")
    page.wait_for_timeout(NOTED_S * 1000)
    if size == "wide":
        newest = page.locator(".call-table tbody tr:nth-child(-n+5)", has_text="cut").first
        newest.locator("a").click()
        page.locator(".call-detail").wait_for()
        page.evaluate("scrollTo(0, 0)")


def _small(png: bytes) -> bytes:
    written = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    # of all methods the one that keeps rare colours, such as those of the states
    few = picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE)
    few.save(written, "PNG", optimize=True)
    return written.getvalue()

"""People at a real browser: Chromium, headless, driven by Playwright.

`Browser` is one running Chromium; `Person` is somebody with cookies of their own in it, who signs in at
`provider.mjs` or at the SDK's example server and agrees to what is asked.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.live import servers

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

PROGRAMS: Final = (
    "chromium-headless-shell",  # the same without windows: a page takes a fifth of the time
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
PAGE_MS: Final = 15_000
"""The longest that a page may take to come, in milliseconds."""


CHROMIUM: Final = next(filter(None, map(shutil.which, PROGRAMS)), None)
"""The program of an installed Chromium."""


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """A running Chromium; without one the test is skipped, or failed with `CI=true`."""
    from playwright.async_api import async_playwright  # noqa: PLC0415 - most tests need none

    servers.absent(
        None
        if CHROMIUM
        else "browser: no Chromium is installed; run scripts/test --all as root, or install it"
    )
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


class Person:
    """Somebody who signs in as `name`. `sees` is what the last page said."""

    def __init__(self, name: str, context: BrowserContext) -> None:
        self.name = name
        self.context = context
        self.sees = ""
        self.asked = 0
        """How many pages asked for something."""

    async def follow(self, url: str, *, answer: str = "agree") -> str:
        """Open an address, and click through to the end; the address where that is.

        That is the last one that was asked for, where it cannot be reached.
        """
        from playwright.async_api import Error  # noqa: PLC0415 - most tests need none

        page = await self.context.new_page()
        try:
            failed: list[str] = []
            page.on("requestfailed", lambda each: each.is_navigation_request() and failed.append(each.url))
            page.set_default_timeout(PAGE_MS)
            try:
                await page.goto(url)
            except Error:
                if not failed:
                    raise
            while await self._answer(page, answer):
                self.asked += 1
            if failed:
                return failed[-1]
            self.sees = await page.inner_text("body")
            return page.url
        finally:
            await page.close()

    async def _answer(self, page: Page, answer: str) -> bool:
        """Answer what a page asks; whether it asked for anything."""
        title = await page.title()
        if title == "Sign in":
            await page.fill("[name=login]", self.name)
            button = "[value=login]"
        elif title == "Agree":
            button = f"[value={answer}]"
        elif title == "MCP Demo Authentication":
            button = "[type=submit]"
        else:
            return False
        async with page.expect_event("framenavigated"):
            await page.click(button)
        return True


@asynccontextmanager
async def person(name: str, browser: Browser, *, sees_only: str | None = None) -> AsyncIterator[Person]:
    """Somebody with a browser of their own; on another machine, from where only one address is to be reached,
    if `sees_only` says so (HOST:PORT)."""
    # an address that nobody answers at stands for all that the other machine does not reach
    elsewhere = {"proxy": {"server": "http://127.0.0.1:9", "bypass": sees_only}} if sees_only else {}
    context = await browser.new_context(**elsewhere)  # type: ignore[arg-type]
    try:
        yield Person(name, context)
    finally:
        await context.close()


def hand_over(folder: Path) -> Path:
    """A program for BROWSER that hands the address it is given to whoever reads the pipe `addresses`."""
    program = folder / "browser"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$1\" > '{folder}/addresses'\n", "utf-8")
    program.chmod(0o755)
    return program

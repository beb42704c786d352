"""A visit: the daemon's page in a browser, opened as a person does, noting everything that must not happen.

What must not: an error on the console, an exception of a script, a request to another origin, a dialog, a
script of a server's text that has run (such a text sets `window.owned`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.mcpx.core.daemon.daemons import House

if TYPE_CHECKING:
    from playwright.async_api import Browser, ConsoleMessage, Locator, Page, ViewportSize

AXE: Final = Path(__file__).parents[1] / "node_modules/axe-core/axe.min.js"
PAGE_MS: Final = 30_000  # for what a page waits for: a machine may be busy
RULES_OF_COLOURS: Final = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
MAX_TABS: Final = 60
"""The most keys to anything on a page with one server."""
WIDE: Final[ViewportSize] = {"width": 1600, "height": 1000}
NARROW: Final[ViewportSize] = {"width": 360, "height": 740}

WIDER: Final = """() => {
    const root = document.scrollingElement;
    if (root.scrollWidth <= root.clientWidth) return [];
    const isWider = (each) => each.getBoundingClientRect().right > root.clientWidth + 1
        || (each.scrollWidth > each.clientWidth && getComputedStyle(each).overflowX === "visible");
    const named = (each) => `${each.tagName} ${each.className} ${each.textContent.slice(0, 40)}`;
    return ["the page", ...[...document.querySelectorAll("body *")].filter(isWider).map(named)].slice(-8);
}"""
"""What makes the page scroll sideways."""
HOP: Final = """async (places) => {
    for (const place of places) {
        history.replaceState(null, "", `#/${place}`);
        dispatchEvent(new Event("hashchange"));
        await null; // views are rendered before this goes on: neither a frame nor a timer comes between
    }
}"""


class Visit:
    """One page. `wrong` is what has happened that must not."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.origin = origin
        self.wrong: list[str] = []
        page.set_default_timeout(PAGE_MS)
        page.on("console", self._note_words)
        page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        page.on("request", lambda request: self._note_request(request.url))
        page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))

    def _note_words(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.wrong.append(f"console: {said.text} ({said.location.get('url')})")

    def _note_request(self, url: str) -> None:
        if not url.startswith((f"{self.origin}/", "data:", "blob:")):
            self.wrong.append(f"request: {url}")

    async def go(self, place: str) -> None:
        """Go to a view: what stands behind the #."""
        await self.page.goto(f"{self.origin}/ui/#/{place}")
        await self.page.locator("h1").first.wait_for()

    async def hop(self, *places: str) -> None:
        """Go to these views, one after the other, before the browser paints: a busy one takes its time."""
        await self.page.evaluate(HOP, places)

    async def check(self) -> None:
        """Nothing has happened that must not, since it was last asked."""
        wrong, self.wrong = self.wrong, []
        assert not wrong, wrong
        assert await self.page.evaluate("window.owned") is None

    async def violations(self, *, of_colours: bool = False) -> list[dict[str, Any]]:
        """What axe-core finds, however serious; in another theme of what was looked at, by colours alone."""
        if not await self.page.evaluate("'axe' in window"):
            # its text is evaluated by the debugger, which the page's policy does not hold for
            await self.page.evaluate(AXE.read_text("utf-8"))
        options = {"resultTypes": ["violations"]} | ({"runOnly": RULES_OF_COLOURS} if of_colours else {})
        found = await self.page.evaluate("options => axe.run(document, options)", options)
        return [
            {"id": each["id"], "where": [node["target"] for node in each["nodes"]][:5]}
            for each in found["violations"]
        ]


async def tab_to(visit: Visit, target: Locator, key: str = "Tab") -> None:
    """Press Tab, or another key, until that has the focus."""
    await target.wait_for()
    for _ in range(MAX_TABS):
        if await target.evaluate("it => it === document.activeElement"):
            return
        await visit.page.keyboard.press(key)
    raise AssertionError(f"{key} does not lead to {target}")


@asynccontextmanager
async def visiting(house: House, browser: Browser, **look: Any) -> AsyncIterator[Visit]:
    """Open the page by `mcpx ui --print`; nothing may have gone wrong at the end."""
    done = house.run("ui", "--print")
    assert done.returncode == 0, done.stderr
    url = done.stdout.strip()
    context = await browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", **look})
    try:
        visit = Visit(await context.new_page(), url.partition("/ui/")[0])
        await visit.page.goto(url)
        await visit.page.locator("nav").first.wait_for()
        yield visit
        await visit.check()
    finally:
        await context.close()

"""Fixtures of the page: one browser for a file of tests, and a daemon with a server to look at."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live import servers
from tests.live.oauth import people
from tests.live.page.visits import AXE, Visit, visiting
from tests.mcpx.daemon.daemons import House

if TYPE_CHECKING:
    from playwright.async_api import Browser

SHOWN = str(Path(__file__).with_name("shown_server.py"))


class PageHouse(House):
    """A configuration whose server `shown` has one of everything; `say` puts words into its mouth."""

    def say(self, **words: str) -> None:
        (self.folder / "words.json").write_text(json.dumps(words), "utf-8")

    @property
    def shown(self) -> dict[str, Any]:
        """The entry of the server."""
        return {"command": sys.executable, "args": ["-S", "-E", SHOWN, str(self.folder / "words.json")]}

    def begin(self, servers: dict[str, Any] | None = None, **settings: Any) -> None:
        """Write the configuration, and start the daemon."""
        self.write({"shown": self.shown} if servers is None else servers, **settings)
        done = self.run("daemon", "start")
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    servers.absent(None if AXE.exists() else "axe-core is not installed; run scripts/test")
    async with people.open_browser() as browser:
        yield browser


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[PageHouse]:
    with tempfile.TemporaryDirectory(prefix="mcpx-") as folder:
        monkeypatch.setenv("MCPX_STATE_DIR", f"{folder}/state")
        made = PageHouse(Path(folder))
        made.say()
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
async def visit(house: PageHouse, browser: Browser) -> AsyncIterator[Visit]:
    house.begin()
    async with visiting(house, browser) as visit:
        yield visit

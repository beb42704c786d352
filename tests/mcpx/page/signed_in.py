"""A page with its own listener over a real hub, and a browser that is signed in to it, over real sockets.

For what the page answers and does. Who tries to get in without that: `tests.mcpx.page.visiting`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlsplit

import anyio
import httpx2
import pytest

from mcpx.core.config import Config
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.running import bounded
from mcpx.page.page import Page
from tests.forking.client import Python
from tests.mcpx.scripted import PATIENCE_S, Watch, open_watched


class SignedIn:
    """A browser that has opened the page."""

    def __init__(self, page: Page, http: httpx2.AsyncClient) -> None:
        self.page = page
        self._http = http

    @property
    def hub(self) -> Hub:
        return self.page.hub

    async def get(self, path: str, *, status: int = 200, fails: bool = False, **query: str) -> Any:
        """The JSON of an answer with that status; for what `fails`, what is said of that."""
        return _said(await self._http.get(f"/ui/api{path}", params=query), status, fails=fails)

    async def post(
        self, path: str, body: Any = None, *, status: int = 200, fails: bool = False, **members: Any
    ) -> Any:
        """What comes of something that is done; with that body, or one of these `members`."""
        body = members if body is None else body
        return _said(await self._http.post(f"/ui/api{path}", json=body), status, fails=fails)

    @asynccontextmanager
    async def following(self, topic: str) -> AsyncIterator[News]:
        """The news of one topic."""
        address = f"/ui/api/events?topic={quote(topic, safe='')}"
        async with self._http.stream("GET", address, timeout=PATIENCE_S) as response:
            assert response.status_code == 200
            yield News(response)


def _said(response: httpx2.Response, status: int, *, fails: bool) -> Any:
    assert response.status_code == status, response.text
    answer = response.json()
    return answer["failed"] if fails else answer


class Visitor(SignedIn):
    """A browser, and what the servers hear."""

    def __init__(self, page: Page, watch: Watch, http: httpx2.AsyncClient) -> None:
        super().__init__(page, http)
        self.watch = watch

    async def call(
        self, tool: str, arguments: Any = None, *, server: str = "s", status: int = 200, **more: Any
    ) -> Any:
        body = {"server": server, "tool": tool, "arguments": arguments, **more}
        return await self.post("/call", body, status=status)


class News:
    """What a stream says, piece by piece."""

    def __init__(self, response: httpx2.Response, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._lines = response.aiter_lines()
        self.heard: list[dict[str, Any]] = []

    async def next(self) -> dict[str, Any]:
        """The next event's data; a failure is as it came. What says which daemon answers is left out."""
        with anyio.fail_after(self._patience_s):
            event = ""
            async for line in self._lines:
                event = line.removeprefix("event: ") if line.startswith("event: ") else event
                if line.startswith("data: ") and event != "daemon":
                    self.heard.append(json.loads(line.removeprefix("data: ")))
                    return self.heard[-1]
        raise AssertionError("the stream has ended")

    async def until(self, holds: Any) -> dict[str, Any]:
        """The first piece that holds that."""
        while not holds(piece := await self.next()):
            pass
        return piece


@asynccontextmanager
async def opened(page: Page) -> AsyncIterator[httpx2.AsyncClient]:
    """What a browser asks with that has opened the page, whose hub runs and whose commands are forked off."""
    page.hub.root.add(page.child())
    link = urlsplit(await page.link())
    origin = f"{link.scheme}://{link.netloc}"
    asking = httpx2.AsyncClient(
        base_url=origin, headers={"origin": origin}, timeout=PATIENCE_S, trust_env=False
    )
    forking = SimpleNamespace(**vars(subprocess) | {"Popen": Python})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded, "subprocess", forking)
        async with asking as http:
            entered = await http.get(f"{link.path}?{link.query}")
            assert entered.status_code == 200
            yield http


@asynccontextmanager
async def signed_in(page: Page) -> AsyncIterator[SignedIn]:
    """A browser that is signed in to the page, whose hub runs."""
    async with opened(page) as http:
        yield SignedIn(page, http)


@asynccontextmanager
async def visiting(config: Config, *, state: Path | None = None) -> AsyncIterator[Visitor]:
    """A page over a hub with that configuration, whose servers have settled, and a visitor of it."""
    async with open_watched(config, state=state) as watch:
        page = Page(watch.hub, ClientSessions(watch.hub))
        async with opened(page) as http:
            yield Visitor(page, watch, http)

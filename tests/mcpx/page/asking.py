"""A browser's requests to the page over a real socket: it signs in, asks, does, and follows a topic."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import anyio
import httpx2

from mcpx.page.page import Page
from tests.mcpx.scripted import PATIENCE_S


class Asking:
    """A page that is open in a browser."""

    def __init__(self, page: Page, client: httpx2.AsyncClient) -> None:
        self.page = page
        self._client = client

    async def get(self, *parts: str, status: int = 200, fails: bool = False, **query: str) -> Any:
        """What a question is answered with; `parts` are those of its path under `/ui/api`.

        For what `fails`, what is said of that.
        """
        path = "/ui/api/" + "/".join(quote(part, safe="") for part in parts)
        with anyio.fail_after(PATIENCE_S):
            response = await self._client.get(path, params=query)
        return _answer(response, status, fails=fails)

    async def post(self, *parts: str, status: int = 200, fails: bool = False, **body: Any) -> Any:
        """What comes of something that is done."""
        path = "/ui/api/" + "/".join(quote(part, safe="") for part in parts)
        response = await self._client.post(path, json=body, headers={"origin": str(self._client.base_url)})
        return _answer(response, status, fails=fails)


def _answer(response: httpx2.Response, status: int, *, fails: bool) -> Any:
    assert response.status_code == status, response.text
    answer = response.json()
    assert ("failed" in answer) is fails, answer
    return answer["failed"] if fails else answer


@asynccontextmanager
async def asking(page: Page) -> AsyncIterator[Asking]:
    """A browser that is signed in to the page, whose hub runs."""
    page.hub.root.add(page.child())
    link = await page.link()
    origin = link.partition("/ui/")[0]
    async with httpx2.AsyncClient(base_url=origin, timeout=PATIENCE_S, trust_env=False) as client:
        opened = await client.get(link)
        assert opened.status_code == 200
        yield Asking(page, client)

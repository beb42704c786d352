"""A browser's requests to the page, without a socket: it signs in, asks, does, and follows a topic."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import anyio
import httpx2

from mcpx.page.page import Page
from tests.mcpx.scripted import PATIENCE_S

ORIGIN = "http://127.0.0.1:4711"


class Asking:
    """A page that is open in a browser."""

    def __init__(self, page: Page, client: httpx2.AsyncClient) -> None:
        self.page = page
        self._client = client

    async def get(self, *parts: str, status: int = 200, **query: str) -> Any:
        """What a question is answered with; `parts` are those of its path under `/ui/api`."""
        path = "/ui/api/" + "/".join(quote(part, safe="") for part in parts)
        with anyio.fail_after(PATIENCE_S):
            response = await self._client.get(path, params=query)
        assert response.status_code == status, response.text
        return response.json()

    async def post(self, *parts: str, status: int = 200, **body: Any) -> Any:
        """What comes of something that is done."""
        path = "/ui/api/" + "/".join(quote(part, safe="") for part in parts)
        response = await self._client.post(path, json=body, headers={"origin": ORIGIN})
        assert response.status_code == status, response.text
        return response.json()


@asynccontextmanager
async def asking(page: Page) -> AsyncIterator[Asking]:
    """A browser that is signed in."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=page), base_url=ORIGIN) as client:
        opened = await client.get("/ui/open", params={"code": page.access.new_code()})
        assert opened.status_code == 200
        yield Asking(page, client)

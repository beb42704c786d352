"""Messages that have no answer, over HTTP: notifications, and answers to the server's own questions.

One that does not arrive is no error, but may be a sign that the session is over. A bounded number of them is
on its way at a time: a server that takes none gets no more, however many questions it asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

import anyio
import httpx2
from mcp.shared._httpx_utils import next_request_within_origin

from mcpx.upstream.transport.http_answers import SESSION
from mcpx.upstream.transport.http_body import without_body
from mcpx.upstream.transport.http_stream import Told, session_over

NOTIFY_S: Final = 5.0  # for the answer to a notification, which says nothing
MOST_NOTIFYING: Final = 64  # messages on their way

Options = dict[str, Any]
Send = Callable[..., Awaitable[httpx2.Response]]
"""Sends a request, with the options of any such client."""
Spawn = Callable[[Callable[[], Coroutine[object, object, object]]], object]
"""Runs something beside, for as long as the session lives."""


class Notifier:
    """Sends them with `send`: beside what else there is once `spawn` is bound, until then one by one."""

    def __init__(self, send: Send) -> None:
        self.spawn: Spawn | None = None
        self._send = send
        self._on_their_way = 0

    async def post(
        self, told: Told, request: httpx2.Request, options: Options, *, in_order: bool
    ) -> httpx2.Response:
        """Send one, and wait for it only where what follows may depend on it (`in_order`)."""
        if self.spawn is None or in_order:
            return await self._post(told, request, options)
        if self._on_their_way < MOST_NOTIFYING:
            self.spawn(partial(self._post, told, request, options))
        else:
            told.suspect()
        return httpx2.Response(httpx2.codes.ACCEPTED, request=request)

    async def _post(self, told: Told, request: httpx2.Request, options: Options) -> httpx2.Response:
        self._on_their_way += 1
        try:
            with anyio.move_on_after(NOTIFY_S):
                response = await self._send(request, **options)
                if next_request_within_origin(response) is not None:
                    return await without_body(response)
                await response.aclose()
                if response.status_code == httpx2.codes.NOT_FOUND and SESSION in request.headers:
                    session_over(told, "the server does not know the session any more (HTTP 404)")
                elif response.is_error:
                    told.suspect()
        except httpx2.HTTPError:
            told.suspect()
        finally:
            self._on_their_way -= 1
        return httpx2.Response(httpx2.codes.ACCEPTED, request=request)

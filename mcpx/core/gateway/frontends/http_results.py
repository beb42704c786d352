"""Results that are encoded already, put into the HTTP responses that carry them.

Wraps the application of the HTTP frontend. The SDK's transports write every message as one compact JSON text,
in a response of its own or in one event of a stream; where a handler has enclosed encoded JSON
(`mcpx.core.wire.enclosed`), the client gets that JSON, byte for byte what a client of a stream gets. So it is
for events that were stored, too, for they pass here when they are sent.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpx.core.wire.enclosed import restore

_LENGTH: Final = "content-length"


class EncodedResults:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; the head of a response with a length waits for the body, whose length changes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        waiting: list[Message] = []

        async def send_restored(message: Message) -> None:
            if message["type"] == "http.response.start" and _LENGTH in Headers(raw=message["headers"]):
                waiting.append(message)
                return
            if body := message.get("body"):
                message["body"] = restored = restore(body)
                if waiting and len(restored) != len(body):
                    headers = MutableHeaders(raw=list(waiting[0]["headers"]))
                    headers[_LENGTH] = str(len(restored))
                    waiting[0]["headers"] = headers.raw
            while waiting:
                await send(waiting.pop())
            await send(message)

        await self._app(scope, receive, send_restored)

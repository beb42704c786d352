"""Leaving without dropping anybody: what happens to the HTTP requests that are open when MCPX ends.

An ASGI application around all others, made by `http_server`. While MCPX drains (`http.drain`) it only looks
on: requests are served, and the connection tells each client to close (`http_connection`). Once MCPX ends,
`end_streams` ends those that would never end by themselves, the streams on which clients listen; the others
have the grace time to finish. `end_all` answers what is still open then, with an error whose outcome is
`unknown`: no request is dropped without an answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import anyio
import msgspec
from mcp.shared.inbound import MCP_METHOD_HEADER
from mcp_types import INTERNAL_ERROR
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpx.core.gateway.frontends.http_endpoints import PEERS_PATH
from mcpx.core.servers.call_errors import FAILURE_KEY
from mcpx.core.wire import envelope
from mcpx.errors import Code, Outcome

LISTEN: Final = b"subscriptions/listen"
EVENTS: Final = b"text/event-stream"
MAX_NOTED_BYTES: Final = 65536  # of a body, in which the id of the request is looked for
_TEXT: Final = "MCPX ends; what was begun may or may not have taken effect"
_PEERS: Final = PEERS_PATH.partition("{")[0]
_METHOD: Final = MCP_METHOD_HEADER.encode()


class OpenRequest:
    """One request, as far as its end needs to know it."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.cancelled = anyio.CancelScope()
        self._scope = scope
        self._send = send
        self._noted: list[bytes] | None = []
        self._noted_bytes = 0
        self._status: int | None = None
        self._is_events = False
        self._is_over = False

    @property
    def is_stream(self) -> bool:
        """Whether it is one on which a client listens until it leaves."""
        if self._scope["method"] == "GET":
            return self._is_events
        return any(name == _METHOD and value == LISTEN for name, value in self._scope["headers"])

    def note(self, message: Message) -> None:
        """Note a part of its body, unless that is large."""
        body = message.get("body", b"")
        self._noted_bytes += len(body)
        if self._noted_bytes > MAX_NOTED_BYTES:
            self._noted = None
        if self._noted is not None and body:
            self._noted.append(body)

    async def send(self, message: Message) -> None:
        """Pass on a part of its response."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            kinds = (value for name, value in message["headers"] if name.lower() == b"content-type")
            self._is_events = any(value.startswith(EVENTS) for value in kinds)
        elif message["type"] == "http.response.body":
            self._is_over = not message.get("more_body", False)
        await self._send(message)

    async def conclude(self) -> None:
        """End the response of one that was cut off, and say so where it is owed an answer."""
        if self._is_over:
            return
        if self._status is None:
            await self._refuse()
            return
        owed = self._is_events and not self.is_stream
        answer = b"event: message\r\ndata: " + self._error() + b"\r\n\r\n" if owed else b""
        await self.send({"type": "http.response.body", "body": answer, "more_body": False})

    async def _refuse(self) -> None:
        is_call = self._scope["method"] == "POST" and not self.is_stream
        status, body = (500, self._error()) if is_call else (503, b"")
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def _error(self) -> bytes:
        data: dict[str, Any] = {"code": str(Code.CANCELLED), "outcome": str(Outcome.UNKNOWN)}
        if self._scope["path"].startswith(_PEERS):
            data = {FAILURE_KEY: data}
        error = {"code": INTERNAL_ERROR, "message": _TEXT, "data": data}
        return json.dumps({"jsonrpc": "2.0", "id": self._id(), "error": error}).encode()

    def _id(self) -> Any:
        try:
            return envelope.decode_message(b"".join(self._noted or ())).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # a batch, or not read to its end
            return None


class Draining:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[OpenRequest] = set()
        self._is_ended = False

    def end_streams(self) -> None:
        """End the streams on which clients listen, and those that begin from now on."""
        self._is_ended = True
        self._end(lambda request: request.is_stream)

    def end_all(self) -> None:
        """Answer and end whatever is open."""
        self._end(lambda _request: True)

    def _end(self, is_meant: Callable[[OpenRequest], bool]) -> None:
        for request in self._open:
            if is_meant(request):
                request.cancelled.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = OpenRequest(scope, send)

        async def noting() -> Message:
            message = await receive()
            request.note(message)
            return message

        async def watched(message: Message) -> None:
            await request.send(message)
            if self._is_ended and request.is_stream:
                request.cancelled.cancel()

        self._open.add(request)
        try:
            with request.cancelled:
                await self._app(scope, noting, watched)
        finally:
            self._open.discard(request)
        if request.cancelled.cancel_called:
            await request.conclude()

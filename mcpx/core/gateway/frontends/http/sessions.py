"""The sessions of one endpoint over HTTP: the SDK's, with kept events, and with batches in one revision."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.streamable_http import (
    GET_STREAM_KEY,
    LAST_EVENT_ID_HEADER,
    MCP_SESSION_ID_HEADER,
    StreamableHTTPServerTransport,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from mcpx.core.gateway.frontends.http.batches import BatchExchange
from mcpx.core.gateway.frontends.http.events import RETRY_MS, KeptEvents, SessionEvents
from mcpx.core.text.json_work import takes_long, work_of
from mcpx.core.wire import malformed
from mcpx.core.wire.batch import BATCH_REVISION, NOT_IN_REVISION, split, split_if_any, why_refused
from mcpx.core.wire.intake import LARGE_BYTES

K = TypeVar("K")


class SessionManagers(Generic[K]):
    """Session managers by what they are for, each made when its first client comes, and kept while `running`.

    `make` makes one, with tasks that last as long as it does. When one is ended its sessions end, too, and
    their clients begin new ones.
    """

    def __init__(self, make: Callable[[K, anyio.abc.TaskGroup], StreamableHTTPSessionManager]) -> None:
        self._make = make
        # the one that was used longest ago is the first
        self._managers: dict[K, tuple[StreamableHTTPSessionManager, anyio.CancelScope]] = {}
        self._making = anyio.Lock()
        self._tasks: anyio.abc.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the sessions."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()
        self._tasks = None
        self._managers.clear()

    async def get(self, key: K) -> StreamableHTTPSessionManager:
        """The manager; it is made if there is none."""
        async with self._making:
            running = self._managers.pop(key, None)
            if running is None:
                if self._tasks is None:
                    raise RuntimeError("the endpoint is not running")
                running = await self._tasks.start(self._run, key)
            self._managers[key] = running
            return running[0]

    def end(self, key: K) -> None:
        """End a manager with its sessions, if there is one."""
        if (ended := self._managers.pop(key, None)) is not None:
            ended[1].cancel()

    def end_all(self, belongs: Callable[[K], bool]) -> None:
        """End those managers with their sessions."""
        for key in [key for key in self._managers if belongs(key)]:
            self.end(key)

    def end_oldest(self, counts: Callable[[K], bool], most: int) -> None:
        """Keep at most that many of those that count: end the ones that were used longest ago."""
        counted = [key for key in self._managers if counts(key)]
        for key in counted[: max(0, len(counted) - most)]:
            self.end(key)

    async def _run(
        self,
        key: K,
        *,
        task_status: anyio.abc.TaskStatus[tuple[StreamableHTTPSessionManager, anyio.CancelScope]],
    ) -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                manager = self._make(key, tasks)
                async with manager.run():
                    task_status.started((manager, scope))
                    await anyio.sleep_forever()


TOO_DENSE: Final = "it holds too many values; send fewer at a time, or as one text"
_REVISION: Final = re.compile(rb'protocolVersion\\?":\s*\\?"([0-9-]+)')  # of a result, which may be a text


class SessionManager(StreamableHTTPSessionManager):
    """Serves any number of sessions; what they keep counts in `kept`, with that of other managers."""

    def __init__(
        self, server: Server, *, security: TransportSecuritySettings, limit: int, kept: KeptEvents
    ) -> None:
        """`limit` is the most bytes of a request's body."""
        super().__init__(
            server, security_settings=security, max_request_body_size=limit, retry_interval=RETRY_MS
        )
        self._kept = kept
        self._events: dict[str, SessionEvents] = {}
        self._batching: set[str] = set()  # the sessions of the revision that has batches

    def __len__(self) -> int:
        """The number of open sessions."""
        return len(self._server_instances)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        """Open a session, which gets a store of its own: the SDK's would be one for all."""
        transport = super()._admit_session(requestor)
        if transport is not None and transport.mcp_session_id is not None:
            store = SessionEvents(self._kept, transport.close_sse_stream)
            transport._event_store = self._events[transport.mcp_session_id] = store  # noqa: SLF001 - no other way
        return transport

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        """End a session, and what it keeps."""
        self._batching.discard(session_id)
        if (store := self._events.pop(session_id, None)) is not None:
            store.close()
        await super()._discard_session(session_id, transport)

    # --- batches

    async def _serve_opening_request(
        self, http_transport: StreamableHTTPServerTransport, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve `initialize`, and note the revision that was agreed on."""

        async def watched(message: Message) -> None:
            found = _REVISION.search(message.get("body", b""))
            if found and found[1].decode() == BATCH_REVISION and http_transport.mcp_session_id:
                self._batching.add(http_transport.mcp_session_id)
            await send(message)

        await super()._serve_opening_request(http_transport, scope, receive, watched)

    async def _handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; a batch message by message."""
        if scope["method"] == "POST":
            given = await _with_body(receive)
            body = given[0].get("body", b"")
            if len(body) > LARGE_BYTES and await _is_dense(body):
                await _refusal(malformed.invalid(body, TOO_DENSE), 413)(scope, receive, send)
                return
            receive = resumed(given, receive)
        headers = Headers(scope=scope)
        store = self._events.get(headers.get(MCP_SESSION_ID_HEADER, ""))
        if store is not None and scope["method"] == "GET" and LAST_EVENT_ID_HEADER not in headers:
            store.stop_following(GET_STREAM_KEY)  # the client begins its stream anew
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER, BATCH_REVISION)
        if scope["method"] != "POST" or version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await super()._handle_request(scope, receive, send)
            return
        begun = [await receive()]
        if begun[0].get("body", b"").lstrip()[:1] != b"[":
            await super()._handle_request(scope, resumed(begun, receive), send)
            return
        while begun[-1].get("more_body"):
            begun.append(await receive())
        body = b"".join(message.get("body", b"") for message in begun)
        response = await self._refusal_of_batch(Request(scope), body)
        if response is not None:
            await response(scope, receive, send)
            return
        lines = split_if_any(body.strip())
        if lines and headers.get(MCP_SESSION_ID_HEADER) in self._server_instances:
            exchange = BatchExchange(super()._handle_request, scope, lines, self.max_request_body_size)
            await exchange.serve(receive, send)
            return
        await super()._handle_request(scope, resumed(begun, receive), send)  # it says what is wrong

    async def _refusal_of_batch(self, request: Request, body: bytes) -> Response | None:
        """The error that answers a batch as a whole; None if it is taken, or the SDK says what is wrong."""
        security = TransportSecurityMiddleware(self.security_settings)
        if (refused := await security.validate_request(request, is_post=True)) is not None:
            return refused
        session_id = request.headers.get(MCP_SESSION_ID_HEADER)
        if session_id is not None and session_id not in self._server_instances:
            return None
        try:
            lines = split(body)
        except (msgspec.DecodeError, RecursionError):
            return None
        problem = why_refused(lines) if session_id in self._batching else NOT_IN_REVISION
        if problem is None:
            return None
        return _refusal(malformed.invalid(b"[]", problem), 400)


def _refusal(problem: malformed.MalformedLine, status: int) -> Response:
    refusal = b"".join(malformed.refusal(problem))
    return Response(refusal, status_code=status, media_type="application/json")


async def _with_body(receive: Receive) -> list[Message]:
    """The body of a request, as one message, and what came in the place of its end."""
    message = await receive()
    body = bytearray(message.get("body", b""))
    while message.get("more_body"):
        message = await receive()
        if message["type"] != "http.request":
            return [{"type": "http.request", "body": bytes(body), "more_body": True}, message]
        body += message.get("body", b"")
    return [{**message, "body": bytes(body)}] if body else [message]


async def _is_dense(body: bytes) -> bool:
    """Return True if a large body holds too many values to be read in good time."""
    work = 0
    for at in range(0, len(body), LARGE_BYTES):
        work += work_of(body[at : at + LARGE_BYTES])
        await anyio.lowlevel.checkpoint()
    return takes_long(body, work)


def resumed(begun: list[Message], receive: Receive) -> Receive:
    """A `receive` that gives these messages first."""
    waiting = deque(begun)

    async def receive_resumed() -> Message:
        return waiting.popleft() if waiting else await receive()

    return receive_resumed

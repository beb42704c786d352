"""The way of a request of 2026-07-28 to the replica that holds what it brings; an ASGI application.

Stands between who may come in and the endpoints: tokens, `Host` and `Origin` were checked before anything is
passed on, and are again by the holder, which gets the client's own headers. What goes out is sealed, what
comes back is opened or passed on, once: the mark on a request that was passed on is signed, says whether the
client was on the machine of the replica that it came to, and is never passed on again.

Where the holder cannot be reached, nothing was sent now. A question of MCPX's own is then asked anew by this
replica, and a server's state goes to the server as it is here, as 2026-07-28 means states; what only the
holder has ends with an error: `unknown` for a call that had been sent to its server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from hmac import compare_digest
from typing import Final

import anyio
import anyio.to_thread
import structlog
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpx.cluster.replicas.forwarding import (
    Answer,
    AnswerLostError,
    Forwarder,
    HolderGoneError,
    altered,
    answer_failure,
    answer_lost,
    error_of,
    holder_gone,
    looping,
    with_length,
)
from mcpx.cluster.replicas.seals import AlteredError, Incoming, Kind, Seals, read, seal
from mcpx.core.config.urls import is_loopback
from mcpx.core.gateway.frontends.http.asgi import TAKEN, cancel_when_gone
from mcpx.errors import CallError, Code

log = structlog.get_logger()
MARK: Final = "mcpx-passed-on"
_LOCAL: Final = "1"
_AFAR: Final = "0"
_GOES_ON_HERE: Final = frozenset({Kind.APPROVAL, Kind.STATE, Kind.STATELESS})


class ReplicaRouting:
    """Serves what belongs to `replica`, with `app`, and passes on what does not."""

    def __init__(self, app: ASGIApp, replica: Replica) -> None:
        self._app = app
        self._replica = replica
        self._seals = replica.seals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        headers = Headers(scope=scope)
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if scope["method"] != "POST" or version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
            return
        begun, body = await self._body(receive)
        if body is None:
            await self._app(scope, _replayed(begun, receive), send)  # which is disconnected
            return
        is_marked = self._has_mark(headers, body)
        if is_marked and headers[MARK].startswith(_AFAR):
            scope = {**scope, "client": None}  # not of this machine, whatever the connection is from
        try:
            request = read(body, self._seals)
        except AlteredError as error:
            await answer_failure(scope, body, send, altered(error))
            return
        if request is None or request.holder is None:
            await self._serve(scope, body if request is None else request.body, request, receive, send)
        elif is_marked:
            await answer_failure(scope, body, send, looping(request))
        else:
            await self._pass_on(scope, body, request, receive, send)

    async def _body(self, receive: Receive) -> tuple[list[Message], bytes | None]:
        """The body, and the messages that it came in; None where not all of it comes."""
        begun: list[Message] = []
        while True:
            message = await receive()
            begun.append(message)
            if message["type"] != "http.request":
                return begun, None
            if not message.get("more_body"):
                return begun, b"".join(each["body"] for each in begun)

    # --- here

    async def _serve(
        self, scope: Scope, body: bytes, request: Incoming | None, receive: Receive, send: Send
    ) -> None:
        """Serve a request here; what its response gives out is sealed."""
        method = "" if request is None else request.method
        waiting: list[Message] = []

        async def sealing(message: Message) -> None:
            if message["type"] == "http.response.start":
                waiting.append(message)  # with a length that may change
                return
            given = message.get("body", b"")
            sealed = seal(given, method, self._seals)
            if sealed is not given:
                message = {**message, "body": sealed}
            while waiting:
                head = waiting.pop()
                if sealed is not given:
                    head = {**head, "headers": with_length(head["headers"], len(sealed))}
                await send(head)
            await send(message)

        scope = {**scope, "headers": with_length(scope["headers"], len(body))}
        whole: Message = {"type": "http.request", "body": body, "more_body": False}
        await self._app(scope, _replayed([whole], receive), sealing)

    # --- elsewhere

    async def _pass_on(
        self, scope: Scope, body: bytes, request: Incoming, receive: Receive, send: Send
    ) -> None:
        failure: CallError | None = None
        responding = _Responding(send, scope[TAKEN])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_when_gone, receive, tasks.cancel_scope.cancel)
            try:
                await self._exchange(scope, body, request, responding)
            except HolderGoneError as gone:
                log.warning("replica.gone", holder=request.holder, why=str(gone))
                failure = holder_gone(request)
            except AnswerLostError as lost:
                log.warning("replica.answer_lost", holder=request.holder, why=str(lost))
                failure = answer_lost(request)
            tasks.cancel_scope.cancel()
        if failure is None:
            return
        if failure.code is Code.SERVER_UNAVAILABLE and request.kind in _GOES_ON_HERE:
            await self._serve(scope, request.body, request, receive, send)
        elif responding.is_begun:
            event = b"event: message\r\ndata: " + error_of(scope, request, failure) + b"\r\n\r\n"
            await send({"type": "http.response.body", "body": event, "more_body": False})
        else:
            await answer_failure(scope, body, send, failure)

    async def _exchange(self, scope: Scope, body: bytes, request: Incoming, responding: _Responding) -> None:
        """Send the request to its holder, and the answer to the client.

        Raises:
            HolderGoneError: The holder has read nothing.
            AnswerLostError: It may have, and the answer is lost.
        """
        path = scope.get("raw_path") or scope["path"].encode()
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        ends = scope.get("client"), scope.get("server")
        local = _LOCAL if all(end is not None and is_loopback(end[0]) for end in ends) else _AFAR
        kept = [(name, value) for name, value in scope["headers"] if name != MARK.encode()]
        holder = request.holder or ""
        passed = [*kept, (MARK.encode(), f"{local}{self._mark(holder, local, body)}".encode())]
        forwarder = await self._replica.forwarder()
        async with forwarder.send(holder, path + query, passed, body) as answer:
            await responding.pass_back(answer)

    def _mark(self, holder: str, local: str, body: bytes) -> str:
        parts = b"passed on", holder.encode(), local.encode(), sha256(body).digest()
        return self._seals.mac(*parts).hex()

    def _has_mark(self, headers: Headers, body: bytes) -> bool:
        """Return True if another replica has passed the request on to this one."""
        mark = headers.get(MARK)
        if mark is None or mark[:1] not in {_LOCAL, _AFAR}:
            return False
        expected = self._mark(self._seals.url, mark[0], body)
        return compare_digest(mark[1:].encode(), expected.encode())


class Replica:
    """One replica among several: the port `Forwarder`, for the HTTP frontend.

    The connections to others are made by the first request that is passed on.
    """

    def __init__(self, url: str, secret: str) -> None:
        self.seals = Seals(url, secret)
        self.seal_kept = self.seals.seal_kept
        self._forwarder: Forwarder | None = None
        self._making = anyio.Lock()

    def around(self, endpoint: ASGIApp) -> ASGIApp:
        """Return the endpoint for requests of this replica, which passes others on."""
        return ReplicaRouting(endpoint, self)

    async def forwarder(self) -> Forwarder:
        """The forwarder; in a thread, for it reads the certificates of the system."""
        async with self._making:
            if self._forwarder is None:
                self._forwarder = await anyio.to_thread.run_sync(Forwarder)
            return self._forwarder

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Close it at the end."""
        try:
            yield
        finally:
            if self._forwarder is not None:
                await self._forwarder.close()


class _Responding:
    """The response to the client, while it comes from elsewhere."""

    def __init__(self, send: Send, taken: Callable[[], Awaitable[None]]) -> None:
        self._send = send
        self._taken = taken
        self.is_begun = False

    async def pass_back(self, answer: Answer) -> None:
        """Send what comes."""
        if not answer.is_stream:
            body = await answer.whole()
            headers = with_length(answer.headers, len(body))
            await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})
            return
        start = {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        await self._send(start)
        self.is_begun = True
        rest = bytearray()
        async for chunk in answer.chunks():
            rest += chunk
            if end := _end_of_events(rest, len(rest) - len(chunk)):
                await self._send({"type": "http.response.body", "body": bytes(rest[:end]), "more_body": True})
                del rest[:end]
                await self._taken()  # else the holder would not see that the client does not read
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _end_of_events(data: bytearray, seen: int) -> int:
    """Return the end of the last whole event: half of one would spoil what follows if the rest is lost."""
    start = max(0, seen - 3)
    ends = ((mark, data.rfind(mark, start)) for mark in (b"\r\n\r\n", b"\n\n"))
    return max((at + len(mark) for mark, at in ends if at >= 0), default=0)


# --- messages of ASGI


def _replayed(begun: list[Message], receive: Receive) -> Receive:
    """A `receive` that gives these messages first."""
    waiting = list(reversed(begun))

    async def receive_replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_replayed

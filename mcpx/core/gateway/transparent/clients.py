"""Clients of a transparent endpoint, on a stream or over HTTP: bytes in and bytes out.

`TransparentConnection` serves a client of stdio or of the socket, and takes its lines before the SDK does.
`TransparentService` serves those of `/mcp/servers/NAME`; the SDK only says what headers must hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.inbound import x_mcp_header_map
from mcp.shared.transport_context import TransportContext

from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.gateway.http_headers import Request, acknowledge, route_of
from mcpx.core.gateway.over_http import Posted
from mcpx.core.gateway.transparent.requests import TOOLS_CALL, as_call_error, to_answer
from mcpx.core.gateway.transparent.sessions import TransparentSessions
from mcpx.core.protocol.context import ClientId, Transport
from mcpx.core.protocol.requests import Cancel, OnAnswer, Passed
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.passthrough.carriers import answer_line
from mcpx.core.servers.passthrough.client import INITIALIZE, STANDING, DirectClient
from mcpx.core.servers.passthrough.messages import (
    CANCELLED,
    error_answer,
    members_of,
    result_answer,
    value_of,
    with_member,
)
from mcpx.core.wire import envelope
from mcpx.core.wire.batch import BATCH_REVISION
from mcpx.core.wire.dispatcher import LOSSY, WireDispatcher
from mcpx.core.wire.enclosed import encode_read
from mcpx.core.wire.envelope import (
    METHOD_NOT_FOUND,
    Bytes,
    MCPError,
    NoBackChannelError,
    RequestId,
    RPCMessage,
    escaped,
)
from mcpx.core.wire.incoming import IN_USE, spellings
from mcpx.core.wire.outgoing import Outgoing
from supervisors import Reply

# --- streams


class TransparentConnection:
    """Serves one connection. It is the `Peer` of the client and of all its requests."""

    is_local: Final = True

    def __init__(
        self,
        hub: Hub,
        server: str,
        transport: Transport,
        wire: WireDispatcher,
        client: ClientId | None = None,
    ) -> None:
        self._sessions = TransparentSessions(hub, server, transport)
        self._client = DirectClient(self, identity=client)
        self._wire = wire
        self._standing: dict[RequestId, Callable[[], None]] = {}  # what cancels each
        wire.receiver.fast = self._take_request
        wire.receiver.on_notification = self._take_notification
        wire.receiver.takes_batches = lambda: self._client.version == BATCH_REVISION

    async def run(self) -> None:
        """Serve until the channel ends."""
        try:
            await self._wire.run(self._on_request, _no_notification)
        finally:
            for cancel in list(self._standing.values()):
                cancel()
            self._sessions.leave(self._client)

    # --- from the client

    def _take_request(
        self, wire: WireDispatcher, request_id: RequestId, method: str, params: msgspec.Raw
    ) -> bool:
        if request_id in self._standing:  # of the others the receiver knows
            wire.channel.write(*envelope.failure(request_id, IN_USE))
            return True
        request = self._sessions.request(method, bytes(params), request_id, self)
        reply: RawReply = Reply(partial(self._answer, request, request_id))
        open_requests = self._standing if method in STANDING else wire.fast_cancels
        open_requests[request_id] = reply.abandon
        self._sessions.submit(self._client, request, reply)
        return True

    async def _on_request(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Answer a request out of a batch, which is decoded already."""
        request = self._sessions.request(method, encode_read(params), context.request_id or 0, self)
        return await self._sessions.answer(self._client, request)

    def _answer(self, request: Passed, key: RequestId, reply: Reply[msgspec.Raw]) -> None:
        self._wire.fast_cancels.pop(key, None)
        self._standing.pop(key, None)

        def write(answer: msgspec.Raw) -> None:
            self._wire.channel.write(*answer_line(request.id, answer))

        answer_with(write, self._sessions, self._client, request, reply)

    def _take_notification(self, method: str, params: msgspec.Raw) -> bool:
        if method == CANCELLED:
            cancelled = value_of(members_of(params).get("requestId"))
            if not isinstance(cancelled, int | str):
                return True
            for key in spellings(cancelled):
                cancel = self._wire.fast_cancels.pop(key, None) or self._standing.pop(key, None)
                if cancel is not None:
                    cancel()
                    break
            return True
        self._sessions.notify(self._client, method, msgspec.Raw(bytes(params)))
        return True

    # --- from the server

    def notify(self, method: str, params: msgspec.Raw) -> None:
        """Send a notification that may go to the client.

        A log or progress message is dropped while the client does not read.
        """
        if not self._sessions.admits_notification(method, params):
            return
        encoded = bytes(params) if params else None
        if method in LOSSY:
            self._wire.notify_lossy(method, encoded)
        else:
            self._wire.channel.write(*envelope.notification(escaped(method), encoded))

    def ask(self, method: str, params: msgspec.Raw, on_answer: OnAnswer) -> Cancel:
        """Send a request of the server."""
        asking = _Asking(self._sessions.server, self._wire.outgoing, self._wire.channel.write, self.notify)
        return asking.ask(method, params, on_answer)


async def _no_notification(
    _context: DispatchContext[TransportContext], _method: str, _params: Mapping[str, Any] | None
) -> None:
    """Never called, as above."""


class _Asking:
    """Sends requests of a server to its client by `write`, and what cancels them by `notify`."""

    def __init__(
        self,
        server: str,
        outgoing: Outgoing,
        write: Callable[..., object],
        notify: Callable[[str, msgspec.Raw], None],
    ) -> None:
        self._server = server
        self._outgoing = outgoing
        self._write = write
        self._notify = notify
        self.ids: list[RequestId] = []
        """Of all that were sent."""

    def ask(self, method: str, params: msgspec.Raw, on_answer: OnAnswer) -> Cancel:
        """Send a request."""
        outgoing = self._outgoing
        request_id = outgoing.new_id()

        def answered(result: msgspec.Raw | None, error: Exception | None) -> None:
            if isinstance(error, MCPError):
                on_answer(error_answer(error))
            elif error is not None:
                on_answer(to_answer(as_call_error(error, self._server, method)))
            else:
                on_answer(result_answer(result or msgspec.Raw()))

        def cancel(said: msgspec.Raw) -> None:
            outgoing.discard(request_id)
            self._notify(CANCELLED, with_member(said, "requestId", msgspec.Raw(b"%d" % request_id)))

        self.ids.append(request_id)
        encoded = bytes(params) if params else None
        outgoing.call_as(request_id, escaped(method), encoded, answered, self._write)
        return cancel

    def close(self) -> None:
        """Forget what was not answered."""
        for request_id in self.ids:
            self._outgoing.discard(request_id)


# --- HTTP


class Over(Protocol):
    """The way of a server's messages to a client: one of its requests, or its session."""

    @property
    def outgoing(self) -> Outgoing | None:
        """The requests to the client; None for one that cannot be asked."""

    def say(self, *pieces: Bytes, lossy: bool = False) -> None:
        """Send a message."""


class TransparentService:
    """Serves the clients of one token at a server's transparent endpoint over HTTP."""

    def __init__(self, hub: Hub, server: str, bearer: Bearer | None = None) -> None:
        """`bearer` is as for `TransparentSessions`."""
        self.sessions = TransparentSessions(hub, server, "http", bearer)
        self.is_default = bearer is None
        self.sessionless = HttpClient(self, None)

    def open(self, session: Over) -> HttpClient:
        """Serve one more session."""
        return HttpClient(self, DirectClient(HttpPeer(session, self.sessions), may_vanish=True))


class HttpClient:
    """A client with a session of its own; or, as None, all those of 2026-07-28, which have none."""

    def __init__(self, service: TransparentService, client: DirectClient | None) -> None:
        self._service = service
        self._sessions = service.sessions
        self._client = client

    @property
    def version(self) -> str | None:
        """The revision that the server answered `initialize` with."""
        return None if self._client is None else self._client.version

    def take(self, posted: Posted, message: RPCMessage) -> None:
        """Pass a request on, unless its headers do not agree with it."""
        method = message.method or ""
        if self._client is None:
            try:
                self._check(posted.exchange, method, message.params)
            except MCPError as refusal:
                posted.write(*answer_line(posted.id, error_answer(refusal)))
                return
        peer = HttpPeer(
            posted, self._sessions, is_local=self._service.is_default and posted.exchange.is_local
        )
        request = self._sessions.request(method, bytes(message.params), posted.id, peer)
        reply: RawReply = Reply(partial(self._answer, posted, peer, request))
        posted.fast_cancels[posted.id] = reply.abandon
        self._sessions.submit(self._client, request, reply)

    def _check(self, request: Request, method: str, raw: msgspec.Raw) -> None:
        """Hold the headers of a request against its params.

        Raises:
            MCPError: They do not agree, or that revision has no such method.
        """
        members = members_of(raw)
        read: dict[str, Any] = {
            name: value_of(members[name]) for name in ("_meta", "name", "uri") if name in members
        }
        schema = self._sessions.schema_of(str(read.get("name"))) if method == TOOLS_CALL else None
        if schema is not None and "arguments" in members and x_mcp_header_map(schema):
            read["arguments"] = value_of(members["arguments"])
        route_of(request, method, read, lambda _tool: schema)
        if method == INITIALIZE:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", method)

    def _answer(self, posted: Posted, peer: HttpPeer, request: Passed, reply: Reply[msgspec.Raw]) -> None:
        posted.fast_cancels.pop(posted.id, None)
        peer.close()

        def write(answer: msgspec.Raw) -> None:
            posted.write(*answer_line(request.id, answer))

        answer_with(write, self._sessions, self._client, request, reply)

    def notice(self, request: Request, message: RPCMessage) -> None:
        """Pass a notification on."""
        method = message.method or ""
        if self._client is None:
            acknowledge(request)
        elif method != CANCELLED:  # which has ended its request
            self._sessions.notify(self._client, method, msgspec.Raw(bytes(message.params)))

    def close(self) -> None:
        """End what belongs to the client."""
        if self._client is not None:
            self._sessions.leave(self._client)


class HttpPeer:
    """A client over HTTP, as far as one of its requests reaches it, or between them its session."""

    def __init__(self, over: Over, sessions: TransparentSessions, *, is_local: bool = False) -> None:
        self.is_local = is_local
        self._over = over
        self._sessions = sessions
        self._asking: _Asking | None = None

    def notify(self, method: str, params: msgspec.Raw) -> None:
        """Send a notification that may go to the client; of a request, after its answer it is dropped."""
        if self._sessions.admits_notification(method, params):
            encoded = bytes(params) if params else None
            self._over.say(*envelope.notification(escaped(method), encoded), lossy=method in LOSSY)

    def ask(self, method: str, params: msgspec.Raw, on_answer: OnAnswer) -> Cancel:
        """Send a request of the server."""
        outgoing = self._over.outgoing
        if outgoing is None:
            on_answer(error_answer(NoBackChannelError(method)))
            return lambda _said: None
        if self._asking is None:
            self._asking = _Asking(self._sessions.server, outgoing, self._over.say, self.notify)
        return self._asking.ask(method, params, on_answer)

    def close(self) -> None:
        """End the server's own requests: the request is answered."""
        if self._asking is not None:
            self._asking.close()


def answer_with(
    write: Callable[[msgspec.Raw], None],
    sessions: TransparentSessions,
    client: DirectClient | None,
    request: Passed,
    reply: Reply[msgspec.Raw],
) -> None:
    """Write the answer to a request that is settled; one with pictures that have to fit, later."""
    answer = answer_of(sessions, request, reply)
    fit = sessions.fitting(client, request, answer)

    async def write_later(fit: Callable[[], Awaitable[msgspec.Raw]]) -> None:
        write(await sessions.made(request, fit))

    if fit is None or not sessions.spawn(partial(write_later, fit)):
        write(answer)


def answer_of(sessions: TransparentSessions, request: Passed, reply: Reply[msgspec.Raw]) -> msgspec.Raw:
    """The answer to a request that is settled."""
    if reply.error is None and reply.value is not None:
        return sessions.shown(request, reply.value)
    return to_answer(as_call_error(reply.error or RuntimeError("no answer"), sessions.server, request.method))

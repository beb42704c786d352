"""Clients of a transparent endpoint: on a stream, bytes in and bytes out; over HTTP, past the SDK's models.

`TransparentConnection` serves a client of stdio or of the socket, and takes its lines before the SDK does.
`TransparentServer` serves those of `/mcp/servers/NAME`: a server of the SDK whose one middleware takes all
requests and notifications. Params are read from the body of the HTTP request; results, the data of errors and
messages to the client go out enclosed (`mcpx.core.wire.enclosed`): so they pass as the bytes that came, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

import anyio
import anyio.abc
import msgspec
from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.dispatcher import DispatchContext, Outbound
from mcp.shared.transport_context import TransportContext
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.identity import Bearer, connection_of, is_of_this_machine, request_outbound
from mcpx.core.gateway.clients.outbox import NotificationOutbox, RequestQueue
from mcpx.core.gateway.transparent.requests import TOOLS_CALL, as_call_error, to_answer
from mcpx.core.gateway.transparent.sessions import TransparentSessions
from mcpx.core.protocol.context import Transport
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
from mcpx.core.telemetry.contained import contain
from mcpx.core.wire import envelope
from mcpx.core.wire.batch import BATCH_REVISION
from mcpx.core.wire.dispatcher import LOSSY, WireDispatcher
from mcpx.core.wire.enclosed import enclose, encode_read
from mcpx.core.wire.envelope import RequestId, escaped
from mcpx.core.wire.incoming import IN_USE, spellings
from supervisors import Reply

Context = ServerRequestContext[Any, Any]
_CLIENT_KEY: Final = "mcpx.direct"
Admits = Callable[[str, msgspec.Raw], bool]
"""Returns True if a notification of the server, by its method and params, may go to the client."""


# --- streams


class TransparentConnection:
    """Serves one connection. It is the `Peer` of the client and of all its requests."""

    is_local: Final = True

    def __init__(self, hub: Hub, server: str, transport: Transport, wire: WireDispatcher) -> None:
        self._sessions = TransparentSessions(hub, server, transport)
        self._client = DirectClient(self)
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
        if reply.error is not None or reply.value is None:
            error = as_call_error(
                reply.error or RuntimeError("no answer"), self._sessions.server, request.method
            )
            answer = to_answer(error)
        else:
            answer = self._sessions.shown(request, reply.value)
        self._wire.channel.write(*answer_line(request.id, answer))

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
        outgoing = self._wire.outgoing
        request_id = outgoing.new_id()

        def answered(result: msgspec.Raw | None, error: Exception | None) -> None:
            if isinstance(error, MCPError):
                on_answer(error_answer(error))
            elif error is not None:
                on_answer(to_answer(as_call_error(error, self._sessions.server, method)))
            else:
                on_answer(result_answer(result or msgspec.Raw()))

        def cancel(said: msgspec.Raw) -> None:
            outgoing.discard(request_id)
            self.notify(CANCELLED, with_member(said, "requestId", msgspec.Raw(b"%d" % request_id)))

        outgoing.call_as(request_id, escaped(method), bytes(params) if params else None, answered)
        return cancel


async def _no_notification(
    _context: DispatchContext[TransportContext], _method: str, _params: Mapping[str, Any] | None
) -> None:
    """Never called, as above."""


# --- HTTP


class TransparentServer(Server[Any]):
    """Serves the clients of one server's transparent endpoint over HTTP."""

    def __init__(
        self,
        hub: Hub,
        server: str,
        outbox: NotificationOutbox,
        tasks: anyio.abc.TaskGroup,
        bearer: Bearer | None = None,
    ) -> None:
        """`tasks` runs a client's work outside its requests; `bearer` as for `TransparentSessions`."""
        super().__init__(server, get_tool_input_schema=self._input_schema)
        self.middleware = [self._serve]
        self._sessions = TransparentSessions(hub, server, "http", bearer)
        self._is_default = bearer is None
        self._clients = hub.clients
        self._outbox = outbox
        self._tasks = tasks

    def _input_schema(self, tool: str) -> JSON | None:
        return self._sessions.schema_of(tool)

    async def _serve(self, ctx: Context, call_next: CallNext) -> HandlerResult:  # noqa: ARG002 - as the SDK names it
        """A middleware that calls nothing behind it."""
        client = self._client(ctx)
        params = await _params(ctx)
        if ctx.request_id is None:
            if client is not None and ctx.method != CANCELLED:  # which has ended the handler of its request
                self._sessions.notify(client, ctx.method, params)
            return None
        if client is None and ctx.method == INITIALIZE:  # over HTTP that revision does not have it
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        is_local = self._is_default and is_of_this_machine(ctx.request)
        admits = self._sessions.admits_notification
        queue = RequestQueue(self._clients)
        peer = RequestPeer(request_outbound(ctx.session), queue, admits, is_local=is_local)
        request = self._sessions.request(ctx.method, bytes(params), ctx.request_id, peer)
        return await queue.deliver_during(self._answer(client, request, peer))

    async def _answer(
        self, client: DirectClient | None, request: Passed, peer: RequestPeer
    ) -> dict[str, Any]:
        try:
            return await self._sessions.answer(client, request)
        finally:
            peer.close()

    def _client(self, ctx: Context) -> DirectClient | None:
        """The client whose session it is; None from 2026-07-28 on, which has no sessions over HTTP."""
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None
        connection: Connection = connection_of(ctx.session)
        known = cast("DirectClient | None", connection.state.get(_CLIENT_KEY))
        if known is None:
            admits = self._sessions.admits_notification
            peer = SessionPeer(connection, self._outbox, self._tasks, admits)
            known = DirectClient(peer, may_vanish=True)
            connection.state[_CLIENT_KEY] = known
            connection.exit_stack.callback(self._sessions.leave, known)
        return known


async def _params(ctx: Context) -> msgspec.Raw:
    """The params as they came, where the transport keeps them.

    Raises:
        MCPError: They are of a call, and the SDK has read something else in them than stands there.
    """
    if ctx.request is not None:
        try:
            message = envelope.decode_message(body := await ctx.request.body())
        except (msgspec.DecodeError, RecursionError):
            is_batch = body.lstrip()[:1] == b"["
        else:
            if message.method == ctx.method and message.id == ctx.request_id:
                return message.params
            is_batch = False
        if ctx.method == TOOLS_CALL and not is_batch:
            raise MCPError(
                INVALID_PARAMS, "The arguments cannot be read (half a character?); nothing was sent"
            )
    return encode_read(ctx.params)


class RequestPeer:
    """A request that the SDK's server is handling. Its messages go out in order, before its answer."""

    def __init__(self, outbound: Outbound, queue: RequestQueue, admits: Admits, *, is_local: bool) -> None:
        self.is_local = is_local
        self._outbound = outbound
        self._queue = queue
        self._admits = admits
        self._asking: set[anyio.CancelScope] = set()

    def notify(self, method: str, params: msgspec.Raw) -> None:
        """Send a notification soon, if it may go to the client; after the answer it is dropped."""
        if self._admits(method, params):
            self._queue.put(partial(self._outbound.notify, method, _enclosed(params)), 0)

    def ask(self, method: str, params: msgspec.Raw, on_answer: OnAnswer) -> Cancel:
        """Send a request of the server."""
        scope = anyio.CancelScope()

        async def start() -> None:
            if self._queue.tasks is not None:
                self._queue.tasks.start_soon(ask_client, self._outbound, method, params, on_answer, scope)

        self._asking.add(scope)
        self._queue.put(start, 0)
        return lambda _said: scope.cancel()

    def close(self) -> None:
        """End the server's own requests: the request is answered."""
        for scope in self._asking:
            scope.cancel()


class SessionPeer:
    """A session over HTTP, between its requests."""

    is_local: Final = False  # its requests know where they come from

    def __init__(
        self, connection: Connection, outbox: NotificationOutbox, tasks: anyio.abc.TaskGroup, admits: Admits
    ) -> None:
        self._admits = admits
        self._connection = connection
        self._outbox = outbox
        self._tasks = tasks

    def notify(self, method: str, params: msgspec.Raw) -> None:
        """Send a notification, if it may go to the client."""
        if self._admits(method, params):
            self._outbox.send(self._connection, method, _enclosed(params))

    def ask(self, method: str, params: msgspec.Raw, on_answer: OnAnswer) -> Cancel:
        """Send a request of the server."""
        scope = anyio.CancelScope()
        self._tasks.start_soon(ask_client, self._connection.outbound, method, params, on_answer, scope)
        return lambda _said: scope.cancel()


async def ask_client(
    outbound: Outbound, method: str, params: msgspec.Raw, on_answer: OnAnswer, scope: anyio.CancelScope
) -> None:
    """Send a request to a client, and call back with its answer, unless `scope` was cancelled."""
    with scope:
        try:
            result = await outbound.send_raw_request(method, _enclosed(params))
        except MCPError as error:
            on_answer(error_answer(error))
        except Exception as error:  # noqa: BLE001 - the boundary: whatever the SDK raises is the answer
            contain(error, "transparent", method=method)
            on_answer(error_answer(MCPError(INTERNAL_ERROR, "MCPX could not ask the client")))
        else:
            on_answer(result_answer(encode_read(result)))


def _enclosed(params: msgspec.Raw) -> dict[str, Any] | None:
    return enclose([bytes(params)]) if params else None

"""A client on a stream (stdio, socket) and its direct session: messages pass as the bytes that came."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from mcp import MCPError
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.transport_context import TransportContext

from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.transparent.errors import as_call_error, to_answer
from mcpx.core.gateway.transparent.sessions import TransparentSessions
from mcpx.core.protocol.context import Transport
from mcpx.core.protocol.requests import Cancel, OnAnswer, Passed
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.passthrough.carriers import answer_line
from mcpx.core.servers.passthrough.client import STANDING, DirectClient
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
from mcpx.core.wire.envelope import RequestId, escaped
from mcpx.core.wire.incoming import IN_USE, spellings
from supervisors import Reply


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

"""Sends requests to an upstream server, as bytes.

A request is started without waiting, and called back exactly once, with the raw JSON of the result or with
the error; after a lost connection perhaps not at all.

`LogLevelSync` keeps a server of the older revisions up to date on its clients as a whole: the log level, the
most verbose that any client wants that sees the server, and before a call at least the call's own; and
changed roots. From 2026-07-28 on the level travels in each request, and there is nothing to synchronise.
"""

from __future__ import annotations

from typing import Final, Protocol

import anyio
import msgspec
import structlog

from mcpx.core.catalog.model import JSON
from mcpx.core.protocol.context import Caller, most_verbose
from mcpx.core.protocol.requests import CallTool, OnProgress, Request
from mcpx.core.servers.in_flight import Sent
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.servers.session.client_session import PassingSession
from mcpx.core.wire import envelope
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.intake import LARGE_BYTES
from mcpx.core.wire.outgoing import OnAnswer, Outgoing

log = structlog.get_logger()
SET_LEVEL: Final = "logging/setLevel"
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
SET_LEVEL_TIMEOUT_S: Final = 5.0


class LogLevelSync:
    """Synchronises one session. `wire` is its dispatcher."""

    def __init__(
        self, server: str, client: PassingSession, wire: WireDispatcher, clients: ConnectedClients
    ) -> None:
        self._handshake = not client.modern
        self._server = server
        self._client = client
        self._wire = wire
        self._clients = clients
        self.has_level = self._handshake and "logging" in client.server_capabilities
        """True if the server accepts a log level for its whole session."""
        self._level: str | None = None
        self._roots = clients.roots_version

    async def follow(self) -> None:
        """Send changes to the server, for as long as the session lives."""
        clients, server = self._clients, self._server
        while True:
            roots, level = clients.roots_version, clients.level_of(server)
            if self._handshake and self._roots != roots:
                self._roots = roots
                await self._client.notify_raw(ROOTS_CHANGED)
            await self._set_level(level)
            while (roots, level) == (clients.roots_version, clients.level_of(server)):
                await clients.changes.wait()

    async def _set_level(self, level: str | None) -> None:
        """Send the level to the server, unless it has it already. None changes nothing."""
        if not self.has_level or level is None or level == self._level:
            return
        self._level = level
        with anyio.move_on_after(SET_LEVEL_TIMEOUT_S):
            try:
                await self._client.ask_raw(SET_LEVEL, {"level": level})
            except envelope.MCPError as error:
                self.has_level = error.code != envelope.METHOD_NOT_FOUND
                log.debug("upstream.level_refused", level=level, reason=error.message)

    def raise_level_nowait(self, level: str | None) -> None:
        """Raise the level before a call, without waiting: the server has it first."""
        if self._is_below(level):
            self._level = level
            outgoing = self._wire.outgoing
            params = msgspec.json.encode({"level": level})
            outgoing.call(outgoing.new_id(), SET_LEVEL, [params], lambda _result, _error: None, None)

    def _is_below(self, level: str | None) -> bool:
        if level is None or level == self._level or not self.has_level:
            return False
        return most_verbose([level, self._level]) == level


class Sender(Protocol):
    """Starts requests on one session."""

    def send(self, request: Request, on_answer: OnAnswer, on_progress: OnProgress) -> Sent:
        """Start a request. `on_answer` may be called before this returns; neither callback may wait or raise.

        Raises:
            Exception: The request cannot be put into a message; nothing was sent.
        """


class WireSender:
    """Sends bytes through a dispatcher of ours."""

    def __init__(
        self, wire: WireDispatcher, session: PassingSession, client: JSON, log_level: LogLevelSync
    ) -> None:
        self._outgoing = wire.outgoing
        self._log_level = log_level
        self._modern = _ModernMeta(session, client) if session.modern else None

    def send(self, request: Request, on_answer: OnAnswer, on_progress: OnProgress) -> Sent:
        outgoing, modern = self._outgoing, self._modern
        if modern is None and self._log_level.has_level and request.context.caller is not None:
            self._log_level.raise_level_nowait(request.context.caller.log_level)
        request_id = outgoing.new_id()
        params = _encode_params(request, str(request_id).encode(), modern)
        outgoing.call(request_id, request.method, params, on_answer, on_progress, request)
        return _SentOnWire(outgoing, request_id)


class _SentOnWire(msgspec.Struct):
    _outgoing: Outgoing
    _request_id: int

    def recall(self) -> bool:
        return self._outgoing.recall(self._request_id)

    def cancel(self, reason: str) -> None:
        self._outgoing.cancel(self._request_id, reason)


class _ModernMeta:
    """The members of `_meta` in every request of 2026-07-28, as JSON that ends with a comma.

    They name the protocol version, MCPX, the capabilities of the client behind the request and its log level.
    """

    def __init__(self, session: PassingSession, client: JSON) -> None:
        members = {
            envelope.PROTOCOL_VERSION_META_KEY: session.protocol_version,
            envelope.CLIENT_INFO_META_KEY: client,
        }
        self._head = (
            msgspec.json.encode(members)[1:-1] + f',"{envelope.CLIENT_CAPABILITIES_META_KEY}":'.encode()
        )
        self._level = f',"{envelope.LOG_LEVEL_META_KEY}":"'.encode()

    def members(self, caller: Caller | None) -> bytes:
        """The members for a request of that client."""
        if caller is None:
            return self._head + b"{},"
        head, level = self._head + caller.capabilities.encoded, caller.log_level
        return head + b"," if level is None else head + self._level + level.encode() + b'",'


def _encode_params(request: Request, token: bytes, modern: _ModernMeta | None) -> list[envelope.Bytes]:
    """The params of a request in JSON, in pieces where they are large.

    `token` is its progress token, the id, in JSON.
    """
    context, members = request.context, request.params()
    if modern is None:
        meta = b""
    else:
        meta = modern.members(context.caller)
        if context.answers is not None:
            members += context.answers.members()
    if context.trace is not None:
        meta += context.trace.meta(context.meta, token.decode()) + b","
    elif context.meta:
        meta += context.meta + b","
    begin = b',"_meta":{' if members else b'"_meta":{'
    pieces = [b"{", *members, begin, meta, b'"progressToken":', token, b"}}"]
    is_large = isinstance(request, CallTool) and len(request.arguments) > LARGE_BYTES
    return pieces if is_large else [b"".join(pieces)]

"""The context of a request on the fast path: which client it comes from, and how that is reached.

A base of `FastPath`, and no part of it, so that a call finds its context without one step more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import msgspec
from mcp_types import Implementation
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from mcpx.core.calls.results.large_requests import LargeCall, NotTakenApart
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.handles import StreamCaller, capabilities_of
from mcpx.core.gateway.eras import Era, EraServer
from mcpx.core.gateway.frontends.fast_parameters import ClientInfo, Meta, NativeParams, Params, ReadParams
from mcpx.core.protocol.context import InputAnswers, Origin, client_text, read_capabilities, this_user
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.telemetry.contained import contain
from mcpx.core.wire import envelope
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.envelope import RequestId
from mcpx.core.wire.incoming import FAILED, UNREADABLE, overloaded

CALL: Final = "tools/call"
TakeLarge = Callable[[LargeCall], bool]
"""Serves a call that was taken apart, or leaves it to the SDK."""


class FastContexts:
    """The contexts of one connection's requests."""

    def __init__(self, hub: HubView, connection: EraServer) -> None:
        self._clients = hub.clients
        self._profile = hub.endpoint.profile
        self._peer = hub.endpoint.peer
        self._connection = connection
        self._large_requests = hub.large_requests
        self._plain: RequestContext | None = None  # of calls without members of their own

    def _is_open(self, meta: Meta | None) -> bool:
        """Whether the connection is past its opening, and the request is of its era."""
        connection = self._connection
        if connection.era is Era.HANDSHAKE:
            return connection.connection.initialize_accepted and not (meta and meta.version)
        if connection.era is Era.MODERN:
            return bool(meta and meta.version in MODERN_PROTOCOL_VERSIONS and meta.capabilities)
        return False

    def _context(self, wire: WireDispatcher, params: Params | NativeParams | ReadParams) -> RequestContext:
        """The context of a request."""
        meta, repeats = params.meta, params.state is not None or params.responses
        if self._plain is not None and meta is None and not repeats:
            return self._plain
        token = None if meta is None else meta.progressToken
        return replace(
            self._context_of_client(wire, meta),
            answers=InputAnswers(params.responses, params.state) if repeats else None,
            on_progress=None if token is None else partial(wire.notify_progress, token),
            meta=b"" if meta is None else meta.for_server,
        )

    def _context_of_client(self, wire: WireDispatcher, meta: Meta | None) -> RequestContext:
        client = self._connection.identity
        if self._connection.era is Era.MODERN and meta is not None:
            self._clients.note_sessionless(meta.log_level)
            capabilities = read_capabilities(bytes(meta.capabilities))
            caller = StreamCaller(wire, client, capabilities, level=meta.log_level, peer=self._peer)
            return RequestContext(client=client, caller=caller, origin=self._origin(meta))
        if self._plain is None:
            capabilities = capabilities_of(self._connection.connection.client_capabilities)
            caller = StreamCaller(wire, client, capabilities, clients=self._clients, peer=self._peer)
            self._plain = RequestContext(client=client, caller=caller, origin=self._origin(meta))
        return self._plain

    def _origin(self, meta: Meta | None) -> Origin:
        """Who asks, for the audit log."""
        info: ClientInfo | Implementation | None
        if self._connection.era is Era.MODERN:
            info = meta.client_info if meta else None
        else:
            params = self._connection.connection.client_params
            info = params.client_info if params else None
        name, client = (None, None) if info is None else (info.name, client_text(info.name, info.version))
        transport = self._connection.transport
        return Origin(transport=transport, client=client, name=name, user=this_user(), profile=self._profile)

    # --- large calls

    def _take_large(
        self, wire: WireDispatcher, request_id: RequestId, raw: msgspec.Raw, take: TakeLarge
    ) -> None:
        """Serve a large call, once a worker has taken it apart."""
        scope = anyio.CancelScope()
        wire.fast_cancels[request_id] = scope.cancel
        wire.spawn(self._serve_large, wire, request_id, raw, take, scope)

    async def _serve_large(
        self,
        wire: WireDispatcher,
        request_id: RequestId,
        raw: msgspec.Raw,
        take: TakeLarge,
        scope: anyio.CancelScope,
    ) -> None:
        with scope:
            refusal = None
            try:
                call = await self._large_requests.call(raw, self._connection.identity)
            except NotTakenApart as error:
                refusal = UNREADABLE if error.unreadable else overloaded(f"{error}")
        if scope.cancelled_caught:
            return
        del wire.fast_cancels[request_id]
        try:
            if refusal is None and not (call and self._is_taken(call, take)):
                wire.receiver.incoming.take_request(request_id, CALL, raw)
        except Exception as error:  # noqa: BLE001 - as where messages are received: its sender is answered
            contain(error, "request", method=CALL)
            refusal = FAILED
        if refusal is not None:
            wire.channel.write(*envelope.failure(request_id, refusal))

    def _is_taken(self, call: LargeCall, take: TakeLarge) -> bool:
        try:
            return take(call)
        except msgspec.DecodeError:
            return False

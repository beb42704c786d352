"""The fast path of peers: calls and reads from line to line, with no SDK and no task.

A hop costs little: params are decoded as far as the names of the tool and the resource, and the result goes
out as the bytes that came. What is unusual is left to the SDK's server (`mcpx.core.gateway.peer.server`),
which gives the same answers.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from mcpx.core.calls.results.large_requests import LargeCall
from mcpx.core.gateway.clients.handles import Wire
from mcpx.core.gateway.eras import Era, EraServer
from mcpx.core.gateway.fast.call import CALL, Connected, FastCall, FastContexts
from mcpx.core.gateway.fast.parameters import NATIVE_CALLS, READS, Decoder, Meta, NativeParams, ReadParams
from mcpx.core.gateway.peer.results import PeerEncoder
from mcpx.core.gateway.peer.server import PeerServer
from mcpx.core.protocol.context import NO_CAPABILITIES, ClientId, Transport
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.envelope import RequestId
from mcpx.core.wire.intake import LARGE_BYTES

READ: Final = "resources/read"
_BRACE: Final = ord("{")


class PeerFastPath(FastContexts):
    """Serves what it can of one connection's requests. It is offered each before the SDK."""

    def __init__(self, server: PeerServer, connection: Connected) -> None:
        super().__init__(server.hub, connection)
        self._endpoint = server
        self._server = server.server_name
        self._stamp: bytes | None = None
        self._upstreams = server.hub.upstreams
        self._calls = server.hub.calls
        self._views = server.hub.views
        self._decode_call = Decoder(NATIVE_CALLS)
        self._decode_read = Decoder(READS)
        self._encoder_of_session: PeerEncoder | None = None  # before 2026-07-28

    def take(self, wire: Wire, request_id: RequestId, method: str, raw: msgspec.Raw) -> bool:
        """Serve a request, or leave it to the SDK: then the result is false and nothing was done."""
        if method not in {CALL, READ}:
            return False
        upstream = self._upstreams.get(self._server)
        if upstream is None or not upstream.has_listed:
            return False
        if upstream.per_client and self._connection.identity.sessionless:
            return False  # the SDK's path says why not
        if len(raw) > LARGE_BYTES and method == CALL:
            self._take_large(wire, request_id, raw, partial(self._take_large_call, wire, request_id, raw))
            return True
        try:
            if method == CALL:
                return self._take_call(wire, request_id, self._decode_call(raw), raw)
            return self._take_read(wire, request_id, self._decode_read(raw))
        except (msgspec.DecodeError, RecursionError):
            return False

    def _take_large_call(self, wire: Wire, request_id: RequestId, raw: msgspec.Raw, call: LargeCall) -> bool:
        params = NATIVE_CALLS.rich(msgspec.Raw(call.params))
        params.arguments = call.arguments
        return self._take_call(wire, request_id, params, raw)

    def _take_call(self, wire: Wire, request_id: RequestId, params: NativeParams, raw: msgspec.Raw) -> bool:
        arguments = params.arguments
        if not self._is_open(wire, params) or (arguments and memoryview(arguments)[0] != _BRACE):
            return False
        context = self._context(wire, params)
        request = Exec(self._server, params.name, arguments, context, given=raw, for_app=True)
        self._run(wire, request_id, request, params.meta)
        return True

    def _take_read(self, wire: Wire, request_id: RequestId, params: ReadParams) -> bool:
        if not self._is_open(wire, params):
            return False
        context = self._context(wire, params)
        self._run(wire, request_id, Read(self._server, params.uri, context), params.meta)
        return True

    def _run(self, wire: Wire, request_id: RequestId, request: Exec | Read, meta: Meta | None) -> None:
        """Hand a request on, and answer with its result."""
        encoder = self._encoder(meta, request.context)
        FastCall(key=request_id, wire=wire, request=request, encoder=encoder, calls=self._calls).send()

    def _encoder(self, meta: Meta | None, context: RequestContext) -> PeerEncoder:
        """Return the encoder of results for this peer."""
        if self._connection.era is Era.MODERN:
            self._stamp = self._stamp or self._endpoint.stamp
            name = meta.client_info.name if meta and meta.client_info else None
            caller = context.caller
            capabilities = NO_CAPABILITIES if caller is None else caller.capabilities
            return PeerEncoder(self._views, self._stamp, name=name, capabilities=capabilities)
        if self._encoder_of_session is None:
            self._encoder_of_session = PeerEncoder(self._views, None)
        return self._encoder_of_session


def peer_connection(
    server: PeerServer, transport: Transport, wire: WireDispatcher, client: ClientId | None = None
) -> EraServer:
    """Make what serves a peer on a stream. Where calls are traced, the SDK's path has the spans."""
    connection = EraServer(server, wire, transport, client)
    if not server.hub.tracing.on:
        wire.receiver.fast = PeerFastPath(server, connection).take
    wire.receiver.takes_batches = connection.takes_batches
    return connection

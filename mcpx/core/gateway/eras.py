"""One stream connection in the protocol era that its client opens with.

There are two eras. Before 2026-07-28 a connection opens with a handshake (`initialize`), which settles the
revision and what each side can do; the server may then ask the client by requests of its own, and announces
changes to the session. Since then there is neither handshake nor session: each request brings the revision,
the client's name and its capabilities in its `_meta` (the envelope), questions go back as results, and
changes are announced on streams that the client opens (`subscriptions/listen`).

On a stream the first request decides: with the envelope it opens a modern connection, otherwise one with the
handshake; a later request of the other era is refused with the SDK's codes. Over HTTP each request decides
for itself (`mcpx.core.gateway.frontends.http`). Between a client and a server of different eras MCPX
translates: `mcpx.core.servers.actor` opens a session in the client's era where the server speaks both, and
`mcpx.core.calls.asking` takes questions across. At a transparent endpoint nothing is translated, and the era
is a matter between client and server (`mcpx.core.gateway.transparent.sessions`).

The SDK serves both for its own message streams; here it is for a dispatcher that carries bytes. Only this
file touches the SDK's server runner, which is declared provisional.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final

from mcp import MCPError
from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.runner import ServerRunner, aclose_shielded, modern_error_data, serve_one
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp.shared.transport_context import TransportContext
from mcp_types import INVALID_REQUEST, PROTOCOL_VERSION_META_KEY, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcpx.core.gateway.clients.handles import stream_caller
from mcpx.core.gateway.clients.identity import bind_client
from mcpx.core.gateway.endpoint_server import EndpointServer
from mcpx.core.protocol.context import ClientId, Transport
from mcpx.core.wire.batch import BATCH_REVISION
from mcpx.core.wire.context import WireContext
from mcpx.core.wire.dispatcher import WireDispatcher

Params = Mapping[str, Any] | None
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
GREETINGS: Final = frozenset({"initialize", "server/discover"})


class Era(Enum):
    """The protocol era of a connection."""

    UNDECIDED = auto()
    HANDSHAKE = auto()
    MODERN = auto()


class EraServer:
    """Serves one connection. `era` and `connection` tell the fast path what it may take."""

    token: str | None = None
    has_one_wire = True
    agrees: Callable[[Any, Any], bool] | None = None
    caller = staticmethod(stream_caller)

    def __init__(
        self,
        server: EndpointServer,
        dispatcher: WireDispatcher,
        transport: Transport = "stdio",
        client: ClientId | None = None,
    ) -> None:
        self.era = Era.UNDECIDED
        self.connection = Connection.for_loop(dispatcher)
        self.identity = client or ClientId()
        self.transport: Transport = transport
        bind_client(self.connection, self.identity, transport)
        dispatcher.receiver.on_notification = self._hear
        self._server = server
        self._dispatcher = dispatcher
        self._runner: ServerRunner[Any] = ServerRunner(server, self.connection, None)
        self._outbound = NotifyOnlyOutbound(dispatcher)

    def takes_batches(self) -> bool:
        """Return True after `initialize` in the one revision that has batches."""
        connection = self.connection
        return connection.initialize_accepted and connection.protocol_version == BATCH_REVISION

    def _hear(self, method: str, _params: object) -> bool:
        """Note at once what counts for the next line; the notification is served as any other."""
        if method == ROOTS_CHANGED:
            self.identity.roots_known = False
        return False

    async def run(self) -> None:
        """Serve until the dispatcher's channel ends."""
        try:
            await self._dispatcher.run(self._on_request, self._on_notify)
        finally:
            await aclose_shielded(self.connection)
            self._server.client_left(self.identity)

    async def _on_request(
        self, context: DispatchContext[TransportContext], method: str, params: Params
    ) -> dict[str, Any]:
        modern = method != "initialize" and _has_envelope(params)
        if self.era is Era.UNDECIDED:
            self.era = Era.MODERN if modern else Era.HANDSHAKE
            if method in GREETINGS:
                return await self._open(context, method, params)
        return await self._serve(context, method, params, modern=modern)

    async def _open(
        self, context: DispatchContext[TransportContext], method: str, params: Params
    ) -> dict[str, Any]:
        """Serve a greeting; one that fails opens nothing, and its client may ask in the other era."""
        try:
            return await self._serve(context, method, params, modern=self.era is Era.MODERN)
        except BaseException:
            self.era = Era.UNDECIDED
            raise

    async def _serve(
        self, context: DispatchContext[TransportContext], method: str, params: Params, *, modern: bool
    ) -> dict[str, Any]:
        if self.era is Era.MODERN:
            return await self._serve_modern(context, method, params)
        if modern:
            text = (
                "this connection speaks the handshake era; requests with the 2026-07-28 envelope are refused"
            )
            raise MCPError(INVALID_REQUEST, text)
        return await self._runner.on_request(context, method, params)

    async def _serve_modern(
        self, context: DispatchContext[TransportContext], method: str, params: Params
    ) -> dict[str, Any]:
        if method == "initialize":
            versions = list(MODERN_PROTOCOL_VERSIONS)
            data = {"supported": versions, "requested": (params or {}).get("protocolVersion")}
            text = "this connection speaks the 2026-07-28 revision; there is no initialize"
            raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, text, data)
        route = classify_inbound_request({"method": method, "params": params})
        if isinstance(route, InboundLadderRejection):
            raise MCPError(route.code, route.message, route.data)
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=self._outbound
        )
        bind_client(connection, self.identity, self.transport)
        try:
            return await serve_one(
                self._server,
                _one_way(context),
                method,
                params,
                connection=connection,
                lifespan_state=None,
            )
        except (MCPError, ValidationError):
            raise
        except Exception as error:
            failure = modern_error_data(error)
            raise MCPError(failure.code, failure.message, failure.data) from error

    async def _on_notify(
        self, context: DispatchContext[TransportContext], method: str, params: Params
    ) -> None:
        if self.era is not Era.MODERN:
            await self._runner.on_notify(context, method, params)
            return
        connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, None, outbound=self._outbound)
        runner: ServerRunner[Any] = ServerRunner(self._server, connection, None)
        try:
            await runner.on_notify(_one_way(context), method, params)
        finally:
            await aclose_shielded(connection)


def _has_envelope(params: Params) -> bool:
    """Return True if the request has the reserved key of the modern envelope."""
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta


def _one_way(context: DispatchContext[TransportContext]) -> DispatchContext[TransportContext]:
    """The context without requests from server to client, which the modern revision does not have."""
    if isinstance(context, WireContext):
        context.forbid_requests()
    return context

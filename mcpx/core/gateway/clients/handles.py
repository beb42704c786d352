"""Handles to clients: to the one behind a call (`CallerHandle`), and to each connected one (`ClientHandle`).

There are three ways to reach a client: directly on its stream (the fast path), with the request that the
SDK's server is handling, and between requests over its connection. Notifications never wait: the channel or a
task of their own delivers them in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import CallOptions
from mcp_types import CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY, ClientCapabilities
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.identity import (
    bearer_of,
    client_of,
    connection_of,
    is_of_this_machine,
    request_outbound,
    session_client,
)
from mcpx.core.gateway.clients.outbox import NotificationOutbox, RequestQueue, size_of
from mcpx.core.protocol.context import NO_CAPABILITIES, Capabilities, OnStep, read_capabilities
from mcpx.core.servers.relay.clients import LOG, ConnectedClients
from mcpx.core.wire import envelope
from mcpx.core.wire.dispatcher import WireDispatcher


def capabilities_of(declared: ClientCapabilities | None) -> Capabilities:
    """The capabilities in a client's declaration before 2026-07-28, which has no extensions."""
    if declared is None:
        return NO_CAPABILITIES
    given = declared.model_dump_json(by_alias=True, exclude_none=True, exclude={"extensions"})
    return read_capabilities(given.encode())


def capabilities_in(params: Mapping[str, Any] | None) -> Capabilities:
    """The capabilities in the envelope of a request of 2026-07-28."""
    given = ((params or {}).get("_meta") or {}).get(CLIENT_CAPABILITIES_META_KEY)
    return NO_CAPABILITIES if given is None else read_capabilities(envelope.encode(given))


def _options(on_progress: OnStep | None) -> CallOptions | None:
    """The options of a request to a client."""
    if on_progress is None:
        return None

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        await on_progress(progress, total, message)

    return {"on_progress": progressed}


def own_logger(params: JSON, peer: str | None) -> JSON:
    """A log message as a peer at the endpoint of that server gets it: the logger as the server named it."""
    if peer is None:
        return params
    shown = str(params.get("logger", ""))
    if shown.startswith(f"{peer}/"):
        return {**params, "logger": shown[len(peer) + 1 :]}
    return {name: value for name, value in params.items() if name != "logger"} if shown == peer else params


class ConnectionHandle:
    """A client of the revisions before 2026-07-28, between its requests."""

    modern: Final = False

    def __init__(self, connection: Connection, hub: HubView, outbox: NotificationOutbox) -> None:
        self.client = client_of(connection, hub)
        self.log_level: str | None = None
        self._hub = hub
        self._connection = connection
        self._outbox = outbox
        self._capabilities: Capabilities | None = None

    @property
    def capabilities(self) -> Capabilities:
        if self._capabilities is None or self._capabilities is NO_CAPABILITIES:  # before the handshake
            self._capabilities = capabilities_of(self._connection.client_capabilities)
        return self._capabilities

    @property
    def confined(self) -> bool:
        return bearer_of(self._connection) is not None

    @property
    def is_local(self) -> bool:
        return False  # it is asked in its calls, which know where they come from

    @property
    def is_peer(self) -> bool:
        return self._hub.endpoint.peer is not None

    def sees(self, server: str) -> bool:
        return not self._hub.hides(server)

    def log(self, params: JSON) -> None:
        self.notify(LOG, params)

    def notify(self, method: str, params: JSON) -> None:
        if method == LOG:
            params = own_logger(params, self._hub.endpoint.peer)
        self._outbox.send(self._connection, method, params)

    async def ask(self, method: str, params: JSON, on_progress: OnStep | None) -> JSON:
        return await self._connection.outbound.send_raw_request(method, params, _options(on_progress))


class StreamCaller:
    """A client on a stream of ours: one handle for all its calls, or at 2026-07-28 one for each.

    With `peer` it is another MCPX, at the endpoint of that server. Its calls may come from several clients
    there, so at 2026-07-28 each counts as one of its own: no question goes to the wrong person.
    """

    __slots__ = ("_clients", "_level", "_open", "_peer", "_wire", "capabilities", "client", "modern")

    def __init__(
        self,
        wire: WireDispatcher,
        client: object,
        capabilities: Capabilities,
        *,
        clients: ConnectedClients | None = None,
        level: str | None = None,
        peer: str | None = None,
    ) -> None:
        self._peer = peer
        self.client = client if peer is None or clients is not None else self
        self.capabilities = capabilities
        self.modern = clients is None
        """True for 2026-07-28: then it is not in `clients`, and each call brings its level."""
        self._open = True
        self._wire = wire
        self._clients = clients
        self._level = level

    @property
    def is_local(self) -> bool:
        return self._peer is None  # of another MCPX it is not known where the person sits

    @property
    def is_peer(self) -> bool:
        return self._peer is not None

    @property
    def log_level(self) -> str | None:
        if self._clients is None:
            return self._level
        handle = self._clients.handles.get(self.client)
        return handle.log_level if handle is not None else None

    def log(self, params: JSON) -> None:
        if self._open:
            self._wire.notify_lossy(LOG, envelope.encode(own_logger(params, self._peer)))

    def close(self) -> None:
        """A request was answered: at 2026-07-28 nothing more may be sent with it."""
        self._open = not self.modern

    async def ask(self, method: str, params: JSON, on_progress: OnStep | None) -> JSON:
        return await self._wire.send_raw_request(method, params, _options(on_progress))


class RequestCaller:
    """A client whose request the SDK's server is handling."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], hub: HubView, queue: RequestQueue) -> None:
        session = ctx.session
        connection = connection_of(session)
        self.session_client = session_client(connection, hub)
        """The client whose session with a server it takes, where each client has its own."""
        self.is_peer = is_peer = (
            hub.endpoint.peer is not None
        )  # and it is not known where the person sits, nor who it is
        self.modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.client = self if is_peer and self.modern else client_of(connection, hub)
        self.capabilities = (
            capabilities_in(ctx.params) if self.modern else capabilities_of(session.client_capabilities)
        )
        self.is_local = not is_peer and bearer_of(connection) is None and is_of_this_machine(ctx.request)
        self._peer = hub.endpoint.peer
        self._outbound = request_outbound(session)
        self._clients = hub.clients
        self._queue = queue
        self._level = ((ctx.params or {}).get("_meta") or {}).get(LOG_LEVEL_META_KEY)

    @property
    def log_level(self) -> str | None:
        if self.modern:
            return self._level
        handle = self._clients.handles.get(self.client)
        return handle.log_level if handle is not None else None

    def log(self, params: JSON) -> None:
        params = own_logger(params, self._peer)
        self._queue.put(partial(self._outbound.notify, LOG, params), size_of(params))

    async def ask(self, method: str, params: JSON, on_progress: OnStep | None) -> JSON:
        return await self._outbound.send_raw_request(method, params, _options(on_progress))

"""The clients behind calls, as the upstream layer sees them (`mcpx.upstream.context.Caller`), and as members.

Three ways to reach a client: straight on its stream (the fast lane), by the request that the SDK's server is
handling, and between requests by its connection. None of them waits: what is told goes out in order, by the
channel itself or by a task of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import CallOptions
from mcp_types import LOG_LEVEL_META_KEY, ClientCapabilities
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.hub import Hub
from mcpx.gateway.clients.backlog import size_of
from mcpx.gateway.clients.identity import caller, connection_of
from mcpx.upstream.context import JSON, NO_CAPABILITIES, STATELESS, Capabilities, OnStep, read_capabilities
from mcpx.upstream.relay.clients import LOG, Audience
from mcpx.wire import envelope
from mcpx.wire.dispatcher import WireDispatcher

Delivery = Callable[[], Awaitable[None]]
Outbox = Callable[[Delivery, int], None]
"""Takes a delivery of so many bytes to be made soon, after those before it. Drops it where nobody listens."""


class Post(Protocol):
    """Delivers notifications outside any request."""

    def send(self, connection: Connection, method: str, params: JSON) -> None: ...


def capabilities_of(declared: ClientCapabilities | None) -> Capabilities:
    """What the SDK's server has read of a client's declaration."""
    if declared is None:
        return NO_CAPABILITIES
    return read_capabilities(declared.model_dump_json(by_alias=True, exclude_none=True).encode())


def client_of(connection: Connection, hub: Hub) -> object:
    """Who it is, the same from request to request.

    At 2026-07-28 there are no sessions over HTTP: there each request is a client of its own.
    """
    known = caller(connection, hub)
    return connection if known is STATELESS else known


def options(on_progress: OnStep | None) -> CallOptions | None:
    """For a question to a client."""
    if on_progress is None:
        return None

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        await on_progress(progress, total, message)

    return {"on_progress": progressed}


class ConnectionMember:
    """A client of the revisions before 2026-07-28, between its requests."""

    modern: Final = False

    def __init__(self, connection: Connection, hub: Hub, post: Post) -> None:
        self.client = client_of(connection, hub)
        self.log_level: str | None = None
        self._connection = connection
        self._post = post
        self._capabilities: Capabilities | None = None

    @property
    def capabilities(self) -> Capabilities:
        if self._capabilities is None or self._capabilities is NO_CAPABILITIES:  # before the handshake
            self._capabilities = capabilities_of(self._connection.client_capabilities)
        return self._capabilities

    def log(self, params: JSON) -> None:
        self.tell(LOG, params)

    def tell(self, method: str, params: JSON) -> None:
        self._post.send(self._connection, method, params)

    async def ask(self, method: str, params: JSON, on_progress: OnStep | None) -> JSON:
        return await self._connection.outbound.send_raw_request(method, params, options(on_progress))


class StreamCaller:
    """A client on a stream of ours: one object for all its calls, or for one call at 2026-07-28."""

    __slots__ = ("_audience", "_level", "_open", "_wire", "capabilities", "client", "modern")

    def __init__(
        self,
        wire: WireDispatcher,
        client: object,
        capabilities: Capabilities,
        *,
        audience: Audience | None = None,
        level: str | None = None,
    ) -> None:
        self.client = client
        self.capabilities = capabilities
        self.modern = audience is None
        """Without an `audience` in which it is a member, it is of 2026-07-28: the call says the level."""
        self._open = True
        self._wire = wire
        self._audience = audience
        self._level = level

    @property
    def log_level(self) -> str | None:
        if self._audience is None:
            return self._level
        member = self._audience.members.get(self.client)
        return member.log_level if member is not None else None

    def log(self, params: JSON) -> None:
        if self._open:
            self._wire.notify_lossy(LOG, envelope.encode(params))

    def close(self) -> None:
        """One of its requests was answered: at 2026-07-28 nothing may be sent for it any more."""
        self._open = not self.modern

    async def ask(self, method: str, params: JSON, on_progress: OnStep | None) -> JSON:
        return await self._wire.send_raw_request(method, params, options(on_progress))


class RequestCaller:
    """A client whose request the SDK's server is handling."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], hub: Hub, outbox: Outbox) -> None:
        session = ctx.session
        connection = connection_of(session)
        self.session_of = caller(connection, hub)
        """Whose session with a server it takes, where each client has its own."""
        self.client = client_of(connection, hub)
        self.modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.capabilities = capabilities_of(session.client_capabilities)
        self._channel = session._request_outbound  # noqa: SLF001 - the typed methods drop what they do not know
        self._audience = hub.audience
        self._outbox = outbox
        self._level = ((ctx.params or {}).get("_meta") or {}).get(LOG_LEVEL_META_KEY)

    @property
    def log_level(self) -> str | None:
        if self.modern:
            return self._level
        member = self._audience.members.get(self.client)
        return member.log_level if member is not None else None

    def log(self, params: JSON) -> None:
        self._outbox(partial(self._channel.notify, LOG, params), size_of(params))

    async def ask(self, method: str, params: JSON, on_progress: OnStep | None) -> JSON:
        return await self._channel.send_raw_request(method, params, options(on_progress))

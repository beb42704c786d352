"""Which client is behind a connection of the SDK; all that touches the inside of the SDK's server session.

A stream connection (stdio, socket) has one client for its whole life: its `EraServer` binds the client to
everything that it serves. A session over HTTP is known by its `Connection` of the handshake era. Later
revisions have no sessions over HTTP, and their requests belong to no client, but to their `Bearer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import msgspec
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import Outbound

from mcpx.core.daemon.hub_view import HubView
from mcpx.core.protocol.context import ClientId, Origin, Transport, client_text
from mcpx.core.servers.passthrough.client import DirectClient
from mcpx.core.system.endpoint import PROBE_KEY
from mcpx.core.system.users import this_user
from mcpx.core.wire.context import WireContext

if TYPE_CHECKING:
    from mcpx.core.policy.tokens import NamedToken


_BEARER_KEY: Final = "mcpx.bearer"


class Bearer:
    """The HTTP clients that use one token with a name, taken together, and what is theirs.

    No other token's clients get at that. Clients of the default token have no bearer. It is on each request
    that was let in with such a token, and gets from there onto the SDK's connection of the request.
    """

    def __init__(self, token: NamedToken) -> None:
        self.token = token
        self.principal = f"{token.sha256}\0"
        """Tells it from all others, also from a later token of its name (`ClientId.principal`)."""
        self.sessionless = ClientId(sessionless=True, principal=self.principal)
        """Stands for its requests without a session (2026-07-28)."""
        self.direct = DirectClient(None)
        """Stands for the same at transparent endpoints."""


def bearer_of(connection: Connection) -> Bearer | None:
    """The bearer that is bound to a connection."""
    return cast("Bearer | None", connection.state.get(_BEARER_KEY))


_KEY: Final = "mcpx.client"
_TRANSPORT_KEY: Final = "mcpx.transport"


def bind_client(
    connection: Connection, client: ClientId, transport: Transport = "stdio", bearer: Bearer | None = None
) -> None:
    """Make this client the one behind the connection of that kind, which the bearer was let in for."""
    connection.state[_KEY] = client
    connection.state[_TRANSPORT_KEY] = transport
    if bearer is not None:
        connection.state[_BEARER_KEY] = bearer


def origin_of(session: ServerSession, hub: HubView) -> Origin:
    """Return who is behind a session, for the audit log."""
    params, connection = session.client_params, connection_of(session)
    info, bearer = None if params is None else params.client_info, bearer_of(connection)
    return Origin(
        transport=transport_of(connection),
        client=None if info is None else client_text(info.name, info.version),
        name=None if info is None else info.name,
        user=this_user(),
        profile=hub.endpoint.profile,
        token=None if bearer is None else bearer.token.name,
    )


def is_probe(connection: Connection) -> bool:
    """Return True if MCPX itself is behind the connection, asking in a client's name."""
    params = connection.client_params
    return params is not None and bool(params.meta and params.meta.get(PROBE_KEY))


def transport_of(connection: Connection) -> Transport:
    """Return the transport of a connection."""
    return cast("Transport", connection.state.get(_TRANSPORT_KEY, "http"))


def connection_of(session: ServerSession) -> Connection:
    """The connection that a request came over."""
    return session._connection  # noqa: SLF001 - the SDK has no other way to it


def request_outbound(session: ServerSession) -> Outbound:
    """Return what sends to the client along with the request that is being handled."""
    return session._request_outbound  # noqa: SLF001 - the typed methods drop what they do not know


def wire_context(session: ServerSession) -> WireContext | None:
    """What the request that is being handled came with; None where it did not come over a wire of ours."""
    channel = request_outbound(session)
    return channel if isinstance(channel, WireContext) else None


def as_sent(session: ServerSession) -> bytes | msgspec.Raw:
    """The params of the request that is being handled, as the client has sent them.

    The SDK reads them, and of two members by one name it keeps one.
    """
    context = wire_context(session)
    return b"" if context is None else context.raw


def is_of_this_machine(session: ServerSession) -> bool:
    """Return True if the request that is being handled came from this machine."""
    context = wire_context(session)
    return context is None or context.is_local


def session_client(connection: Connection) -> ClientId:
    """The client whose session the connection is; without a session, who stands for all such requests."""
    known: ClientId = connection.state[_KEY]
    return known


def client_of(connection: Connection) -> object:
    """Return what identifies the client from request to request.

    Without a session (2026-07-28 over HTTP) each request is a client of its own.
    """
    known = session_client(connection)
    return connection if known.sessionless else known

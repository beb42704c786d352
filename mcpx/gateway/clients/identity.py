"""Whose request it is: the client behind a connection of the SDK, for servers with a session for each client.

A stream connection (stdio, socket) has one client from its beginning to its end, and its `EraServer` marks
what it serves with it. A session over HTTP is known by its `Connection` of the handshake era; later revisions
have no sessions over HTTP, and their requests are nobody's.
"""

from __future__ import annotations

from typing import Final, cast

from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.hub import Hub
from mcpx.upstream.context import STATELESS, Client

_KEY: Final = "mcpx.client"


def mark(connection: Connection, client: Client) -> None:
    """Whatever comes over this connection is this client's."""
    connection.state[_KEY] = client


def connection_of(session: ServerSession) -> Connection:
    """The connection that a request came over."""
    return session._connection  # noqa: SLF001 - the SDK has no other way to it


def caller(connection: Connection, hub: Hub) -> Client:
    """The client behind a connection; the hub is told when an HTTP session that was asked for ends."""
    known = cast("Client | None", connection.state.get(_KEY))
    if known is None:
        if connection.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return STATELESS
        known = Client()
        mark(connection, known)
        connection.exit_stack.callback(hub.client_left, known)
    return known

"""A peer on a stream: the daemon's socket, or the TLS connection of a gateway to a node."""

from __future__ import annotations

from mcpx.core.gateway.eras import EraServer
from mcpx.core.gateway.peer.fast_path import PeerFastPath
from mcpx.core.gateway.peer.server import PeerServer
from mcpx.core.protocol.context import Transport
from mcpx.core.wire.dispatcher import WireDispatcher


def peer_connection(server: PeerServer, transport: Transport, wire: WireDispatcher) -> EraServer:
    """What serves a peer on a stream of that kind. Where calls are traced, the SDK's path has the spans."""
    connection = EraServer(server, wire, transport)
    if not server.hub.tracing.on:
        wire.receiver.fast = PeerFastPath(server, connection).take
    wire.receiver.takes_batches = connection.takes_batches
    return connection

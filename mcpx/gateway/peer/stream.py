"""A peer on a stream: the daemon's socket, or the TLS connection of a gateway to a node."""

from __future__ import annotations

from mcpx.audit.origin import Transport
from mcpx.gateway.eras import EraServer
from mcpx.gateway.peer.fast_path import PeerFastPath
from mcpx.gateway.peer.server import PeerServer
from mcpx.wire.dispatcher import WireDispatcher


def peer_connection(server: PeerServer, transport: Transport, wire: WireDispatcher) -> EraServer:
    """What serves a peer on a stream of that kind. Where calls are traced, the SDK's path has the spans."""
    connection = EraServer(server, wire, transport)
    if not server.hub.tracing.on:
        wire.receiver.fast = PeerFastPath(server, connection).take
    wire.receiver.takes_batches = connection.takes_batches
    return connection

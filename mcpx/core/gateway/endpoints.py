"""The endpoints of one MCPX: which server a client of each endpoint speaks to.

Made once by the composition root and shared by all frontends, so that the clients of an endpoint get the same
server, whichever way they come. A server is made when its first client comes; one that does not show all
servers lasts for as long as somebody holds it, because there may be any number of such endpoints.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.frontends.stream import StreamClient, gateway_connection
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.protocol.context import Transport
from mcpx.core.servers.fleet.profiles import by_own_names
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.wire.channel import Channel

if TYPE_CHECKING:
    from mcpx.core.gateway.peer.server import PeerServer


class Endpoints:
    """Gives clients their servers."""

    def __init__(self, hub: Hub, clients: ClientSessions) -> None:
        self.hub = hub
        self.clients = clients
        self._servers: WeakValueDictionary[Endpoint, GatewayServer] = WeakValueDictionary()
        self._peers: WeakValueDictionary[Endpoint, PeerServer] = WeakValueDictionary()
        self._of_all: dict[Endpoint, GatewayServer] = {}  # those that show all servers

    def gateway(self, endpoint: Endpoint) -> GatewayServer:
        """The server of an endpoint at which servers are shown to clients."""
        server = self._servers.get(endpoint)
        if server is None:
            server = self._servers[endpoint] = GatewayServer(self.hub, self.clients, endpoint)
            if endpoint.shows_all:
                self._of_all[endpoint] = server
        return server

    def peer(self, endpoint: Endpoint) -> PeerServer:
        """The server of an endpoint for other MCPX."""
        from mcpx.core.gateway.peer.server import PeerServer  # noqa: PLC0415 - for those who are peers

        server = self._peers.get(endpoint)
        if server is None:
            server = self._peers[endpoint] = PeerServer(self.clients, endpoint)
        return server

    def stream_client(
        self, endpoint: Endpoint, channel: Channel, transport: Transport = "stdio"
    ) -> StreamClient:
        """What serves a client on a stream of that kind."""
        endpoint = by_own_names(endpoint, self.hub.config)
        if endpoint.server is not None:
            from mcpx.core.gateway.transparent.stream import TransparentConnection  # noqa: PLC0415 - for those who want it

            serve = partial(TransparentConnection, self.hub, endpoint.server, transport)
            return StreamClient(self.hub, channel, serve)
        if endpoint.peer is not None:
            from mcpx.core.gateway.peer.fast_path import peer_connection  # noqa: PLC0415 - likewise

            return StreamClient(self.hub, channel, partial(peer_connection, self.peer(endpoint), transport))
        return StreamClient(self.hub, channel, partial(gateway_connection, self.gateway(endpoint), transport))

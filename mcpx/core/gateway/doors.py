"""The doors of one MCPX: which server a client of each door speaks to.

Made once by the composition root and shared by all frontends, so that the clients of a door get the same
server, whichever way they come. A server is made when its first client comes; one that does not show all
servers lasts for as long as somebody holds it, because there may be any number of such doors.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.frontends.stream import StreamClient, gateway_connection
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.protocol.origin import Transport
from mcpx.core.servers.fleet.profiles import by_own_names
from mcpx.core.system.endpoint import Door
from mcpx.core.wire.channel import Channel

if TYPE_CHECKING:
    from mcpx.core.gateway.peer.server import PeerServer
    from mcpx.core.gateway.transparent.endpoint import MakeManager, TransparentEndpoint


class Doors:
    """Gives clients their servers."""

    def __init__(self, hub: Hub, clients: ClientSessions) -> None:
        self.hub = hub
        self.clients = clients
        self._servers: WeakValueDictionary[Door, GatewayServer] = WeakValueDictionary()
        self._peers: WeakValueDictionary[Door, PeerServer] = WeakValueDictionary()
        self._of_all: dict[Door, GatewayServer] = {}  # those that show all servers

    def gateway(self, door: Door) -> GatewayServer:
        """The server of a door at which servers are shown to clients."""
        server = self._servers.get(door)
        if server is None:
            server = self._servers[door] = GatewayServer(self.hub, self.clients, door)
            if door.shows_all:
                self._of_all[door] = server
        return server

    def peer(self, door: Door) -> PeerServer:
        """The server of a door for other MCPX."""
        from mcpx.core.gateway.peer.server import PeerServer  # noqa: PLC0415 - for those who are peers

        server = self._peers.get(door)
        if server is None:
            server = self._peers[door] = PeerServer(self.clients, door)
        return server

    def stream_client(self, door: Door, channel: Channel, transport: Transport = "stdio") -> StreamClient:
        """What serves a client on a stream of that kind."""
        door = by_own_names(door, self.hub.config)
        if door.server is not None:
            from mcpx.core.gateway.transparent.stream import TransparentConnection  # noqa: PLC0415 - for those who want it

            serve = partial(TransparentConnection, self.hub, door.server, transport)
            return StreamClient(self.hub, channel, serve)
        if door.peer is not None:
            from mcpx.core.gateway.peer.stream import peer_connection  # noqa: PLC0415 - likewise

            return StreamClient(self.hub, channel, partial(peer_connection, self.peer(door), transport))
        return StreamClient(self.hub, channel, partial(gateway_connection, self.gateway(door), transport))

    def transparent_endpoint(self, make_manager: MakeManager) -> TransparentEndpoint:
        """What serves the clients of transparent doors over HTTP."""
        from mcpx.core.gateway.transparent.endpoint import TransparentEndpoint  # noqa: PLC0415 - for those who want HTTP

        return TransparentEndpoint(self.hub, self.clients.outbox, make_manager)

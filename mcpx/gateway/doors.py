"""The doors of one MCPX: which server a client of each door speaks to.

Made once by the composition root and shared by all frontends, so that the clients of a door get the same
server, whichever way they come. A server is made when its first client comes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mcpx.core.hub import Hub
from mcpx.door import Door, Expose
from mcpx.gateway.clients.sessions import ClientSessions
from mcpx.gateway.frontends.stream import StreamClient, gateway_connection
from mcpx.gateway.server import GatewayServer
from mcpx.wire.channel import Channel

if TYPE_CHECKING:
    from mcpx.gateway.transparent.endpoint import MakeManager, TransparentEndpoint


class Doors:
    """Gives clients their servers."""

    def __init__(self, hub: Hub, clients: ClientSessions) -> None:
        self.hub = hub
        self._clients = clients
        self._servers: dict[Expose | None, GatewayServer] = {}

    def gateway(self, expose: Expose | None) -> GatewayServer:
        """The server of all servers, for clients that have chosen how it shows tools, or have not (None)."""
        if expose not in self._servers:
            self._servers[expose] = GatewayServer(self.hub, self._clients, expose)
        return self._servers[expose]

    def stream_client(self, door: Door, channel: Channel) -> StreamClient:
        """What serves a client on a stream."""
        if door.server is not None:
            from mcpx.gateway.transparent.stream import TransparentConnection  # noqa: PLC0415 - for those who want it

            return StreamClient(self.hub, channel, partial(TransparentConnection, self.hub, door.server))
        server = self.gateway(door.expose)
        return StreamClient(self.hub, channel, partial(gateway_connection, self.hub, server))

    def transparent_endpoint(self, make_manager: MakeManager) -> TransparentEndpoint:
        """What serves the clients of transparent doors over HTTP."""
        from mcpx.gateway.transparent.endpoint import TransparentEndpoint  # noqa: PLC0415 - for those who want HTTP

        return TransparentEndpoint(self.hub, self._clients.outbox, make_manager)

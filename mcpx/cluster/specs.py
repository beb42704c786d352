"""What a cluster makes of a configuration: its commands run on nodes.

Pure. The gateway keeps everything that concerns clients (rules, pins, how tools are shown, budgets); what a
node is told of a server is its `ServerSpec` (`mcpx.cluster.node.protocol`).
"""

from __future__ import annotations

from msgspec.structs import replace

from mcpx.cluster.node.protocol import ServerSpec, spec_of
from mcpx.cluster.placement import Demand
from mcpx.core.config import Config, Place, Placed, ServerConfig, Stdio


def cluster_config(config: Config) -> Config:
    """The configuration with its commands on nodes, but for those with `place: false` and those of peers.

    What an entry says is resolved already: variables and files are those of the gateway.
    """
    return replace(config, servers={name: _placed(server) for name, server in config.servers.items()})


def _placed(server: ServerConfig) -> ServerConfig:
    place = Place() if server.place is True else server.place
    if server.disabled is not None or server.peer is not None or not isinstance(place, Place):
        return server
    if not isinstance(server.transport, Stdio):
        return server
    return replace(server, transport=Placed(stdio=server.transport, place=place))


def placed_spec(server: ServerConfig) -> ServerSpec | None:
    """What a node is told of a server; None for one that is not placed."""
    transport = server.transport
    return spec_of(server, transport.stdio) if isinstance(transport, Placed) else None


def demand_of(server: ServerConfig, memory: int) -> Demand:
    """What a server asks of a node. `memory` is what one session with it has been seen to take."""
    transport = server.transport
    place = transport.place if isinstance(transport, Placed) else Place()
    return Demand(resources=place.resources, memory=memory, node=place.node, spread=place.spread)

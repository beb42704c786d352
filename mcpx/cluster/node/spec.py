"""Servers as a cluster runs them: the spec that a gateway sends, and what a node makes of it. Pure.

The gateway keeps everything that concerns clients: rules, pins, how tools are shown, budgets.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from mcpx.cluster.node.starting import Name
from mcpx.cluster.placement import Demand
from mcpx.core.config import (
    CallLimits,
    Config,
    HealthCheck,
    Place,
    Placed,
    RestartPolicy,
    ServerConfig,
    Stdio,
    Variables,
)
from mcpx.core.config.per_server import Era, ProcessLimits, Sessions
from mcpx.core.config.projects import names_project
from mcpx.core.running.inherited import Inherit

_STARTED: Final = ("command", "args", "env", "cwd", "limits", "inherit")
_TREATED: Final = ("sessions", "era", "call_limits", "health", "restart")
"""Members that a spec has as the server's configuration has them."""


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server as a node needs to know it: how it is started, and how it is treated.

    Everything is resolved: no `${VAR}` is left. `secrets` are the variables (name, value) that are kept out
    of the node's log. Rules, pins and the like are the gateway's.
    """

    name: Name
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    limits: ProcessLimits = ProcessLimits()
    inherit: Inherit = ()
    sessions: Sessions = "shared"
    era: Literal["auto"] | Era = "auto"
    call_limits: CallLimits = CallLimits()
    health: HealthCheck = HealthCheck()
    restart: RestartPolicy = RestartPolicy()
    secrets: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"ServerSpec(name={self.name!r}, sessions={self.sessions!r})"

    @property
    def digest(self) -> str:
        """SHA-256 of the whole spec in hexadecimal: tells it from others of its name."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


def spec_of(server: ServerConfig, stdio: Stdio) -> ServerSpec:
    """Make the spec of a server that is started by that command."""
    return ServerSpec(
        name=server.name,
        **{name: getattr(stdio, name) for name in _STARTED},
        **{name: getattr(server, name) for name in _TREATED},
        secrets=server.variables.values,
    )


def server_of(spec: ServerSpec, name: str) -> ServerConfig:
    """Make the server that a node runs under that name.

    It shows everything and asks nobody: rules, pins, questions and budgets hold at the gateway. A server that
    all share is started with its first client; one that each client has alone, once to list it.
    """
    return ServerConfig(
        name=name,
        transport=Stdio(**{name: getattr(spec, name) for name in _STARTED}),
        **{name: getattr(spec, name) for name in _TREATED},
        variables=Variables(spec.secrets),
        start="eager" if spec.sessions == "shared" else "auto",
        auto_describe=False,
        result_token_budget=0,
        pin="off",
    )


def cluster_config(config: Config) -> Config:
    """Place the commands of a configuration on nodes, but for those with `place: false` and those of peers.

    Those that run in the folder of a client's project stay at the gateway, where that folder is.

    What an entry says is resolved already: variables and files are those of the gateway.
    """
    return replace(config, servers={name: _placed(server) for name, server in config.servers.items()})


def _placed(server: ServerConfig) -> ServerConfig:
    place = Place() if server.place is True else server.place
    if server.disabled is not None or server.peer is not None or not isinstance(place, Place):
        return server
    if not isinstance(server.transport, Stdio) or names_project(server.transport):
        return server
    if server.sessions == "per_project" or server.project is not None:
        return server
    return replace(server, transport=Placed(stdio=server.transport, place=place))


def placed_spec(server: ServerConfig) -> ServerSpec | None:
    """Return the spec that a node is told; None for a server that is not placed."""
    transport = server.transport
    return spec_of(server, transport.stdio) if isinstance(transport, Placed) else None


def demand_of(server: ServerConfig, memory: int) -> Demand:
    """Return the demand on a node. `memory` is what one session with the server has been seen to take."""
    transport = server.transport
    place = transport.place if isinstance(transport, Placed) else Place()
    return Demand(resources=place.resources, memory=memory, node=place.node, spread=place.spread)

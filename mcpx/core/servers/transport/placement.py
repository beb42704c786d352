"""Placement of servers on the nodes of a cluster: what the transport asks, and who answers.

The transport of a placed server asks a `Placement` for an endpoint at each connection. The cluster
(`mcpx.cluster`) is one; without a cluster there is none, and such a server cannot be started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import ServerConfig


class Endpoint(msgspec.Struct, frozen=True):
    """A node that takes a server: its name, where it listens, and what proves either side to the other.

    `certificate` is the one that the node shows, in PEM. `greeting` is the first line of the gateway, without
    its end: the token, and the server that it wants.
    """

    node: str
    host: str
    port: int
    certificate: str
    greeting: bytes

    def __repr__(self) -> str:
        return f"Endpoint(node={self.node!r}, host={self.host!r}, port={self.port})"


class PlacedUse(msgspec.Struct, frozen=True):
    """Use of a server's processes on all nodes: bytes, and the share of one core. None: not known."""

    memory: int
    cpu: float | None


class Placement(Protocol):
    """Decides where servers run. A session is known by its name at the supervisor (`Session.child`)."""

    async def place(self, server: ServerConfig, session: str) -> Endpoint:
        """The node for a session with that server.

        Raises:
            ConnectionLost: There is no node that can take it, and why.
        """
        ...

    def watch(self, session: str, endpoint: Endpoint, on_lost: Callable[[str], None]) -> Callable[[], None]:
        """Have `on_lost` called, once, with the reason when that node does not answer any more.

        Call the result when the session has ended, or was never opened. The callback must neither wait nor
        raise.
        """
        ...

    def refused(self, session: str) -> None:
        """The node of a session has no room for it: nothing is placed there for a while.

        Ask for another place before you call what `watch` gave: what is reserved goes along.
        """
        ...

    def node_of(self, session: str) -> str | None:
        """The name of the node that a session is on, or was last; None if it has been on none."""
        ...

    def use_of(self, server: ServerConfig) -> PlacedUse | None:
        """Use of the nodes by a server, for all gateways together; None where no node has said so."""
        ...

    def starts_at_once(self) -> int:
        """Number of sessions that may start on nodes at a time."""
        ...

    async def restart(self, server: ServerConfig) -> bool:
        """Have the nodes start a server again that they run; whether any has. Sessions stay."""
        ...

    async def log_tail(self, server: ServerConfig, lines: int) -> list[str] | None:
        """Return the last lines of a server's log, of all nodes; None for one that is not placed."""
        ...

    def as_node_says(self, server: ServerConfig, session: str, info: ServerInfo) -> ServerInfo:
        """View of a server: as its session here has it, and where that is well, as its node says."""
        ...


class Placing(msgspec.Struct, frozen=True):
    """The placement of one session: who says where, and for which server and session."""

    placement: Placement | None
    server: ServerConfig
    session: str

"""Placement of servers on the nodes of a cluster: what the transport asks, and who answers.

The transport of a placed server asks a `Placement` for each connection. The cluster (`mcpx.cluster`) is one;
without a cluster there is none, and such a server cannot be started.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import ServerConfig
from mcpx.core.servers.transport.link import Link
from mcpx.core.wire.receiver import OnMalformed


class PlacedUse(msgspec.Struct, frozen=True):
    """Use of a server's processes on all nodes: bytes, and the share of one core. None: not known."""

    memory: int
    cpu: float | None


class Placement(Protocol):
    """Decides where servers run. A session is known by its name at the supervisor (`Session.child`)."""

    def connect(
        self, server: ServerConfig, session: str, *, limit: int, on_malformed: OnMalformed
    ) -> AbstractAsyncContextManager[Link]:
        """Connect a session to a node that takes the server; at exit the connection is closed.

        `limit` is the longest message in bytes. The link is lost when the node does not answer any more.

        Raises:
            ConnectionLost: There is no node that can take it, and why; or none can be reached.
        """

    def node_of(self, session: str) -> str | None:
        """The name of the node that a session is on, or was last; None if it has been on none."""

    def use_of(self, server: ServerConfig) -> PlacedUse | None:
        """Use of the nodes by a server, for all gateways together; None where no node has said so."""

    def starts_at_once(self) -> int:
        """Number of sessions that may start on nodes at a time."""

    async def restart(self, server: ServerConfig) -> bool:
        """Have the nodes start a server again that they run; whether any has. Sessions stay."""

    async def log_tail(self, server: ServerConfig, lines: int) -> list[str] | None:
        """Return the last lines of a server's log, of all nodes; None for one that is not placed."""

    def as_node_says(self, server: ServerConfig, session: str, info: ServerInfo) -> ServerInfo:
        """View of a server: as its session here has it, and where that is well, as its node says."""


class Placing(msgspec.Struct, frozen=True):
    """The placement of one session: who says where, and for which server and session."""

    placement: Placement | None
    server: ServerConfig
    session: str

"""Where a server runs that is placed on a node of a cluster: what the transport asks, and who answers.

The transport of a placed server asks a `Placement` for an endpoint at each connection. The cluster
(`mcpx.cluster`) is one; without a cluster there is none, and such a server cannot be started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from mcpx.config import ServerConfig


class Endpoint(msgspec.Struct, frozen=True):
    """A node that takes a server: its name, where it listens, and what proves either side to the other.

    `certificate` is the one that the node shows, in PEM; `token` is what the gateway shows.
    """

    node: str
    host: str
    port: int
    token: str
    certificate: str

    def __repr__(self) -> str:
        return f"Endpoint(node={self.node!r}, host={self.host!r}, port={self.port})"


class Placement(Protocol):
    """Decides where servers run."""

    async def place(self, server: ServerConfig, session: str) -> Endpoint:
        """The node for a session with that server.

        `session` is its name at the supervisor (`Upstream.child`).

        Raises:
            ConnectionLost: There is no node that can take it, and why.
        """
        ...

    def watch(self, endpoint: Endpoint, on_lost: Callable[[str], None]) -> Callable[[], None]:
        """Have `on_lost` called, once, with the reason when the node does not answer any more.

        Call the result to end that. The callback must neither wait nor raise.
        """
        ...

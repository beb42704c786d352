"""The ports of a hub: what hangs on the core, as Protocols.

`Accounts` and `Account` (`mcpx.core.servers.accounts`) say who MCPX is at a server, and `SignIns` signs
people in; `Peers` has the servers of other MCPX, `Cluster` the nodes that servers run on (its `Placement` is
`mcpx.core.servers.transport.placement`), and `Forwarder` passes HTTP requests on between replicas.
`mcpx.parts` has the one table of what is behind them. A method with a body says what holds where a part is
left out: `NoSignIns`, `NoPeers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from mcpx.core.calls.registry import Registry
from mcpx.core.calls.sign_in_links import PendingSignIn
from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Config
from mcpx.core.daemon.status import ClusterStatus, NodeStatus, PeerStatus
from mcpx.core.servers.server_info import Elsewhere
from mcpx.core.servers.transport.placement import Placement
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.system.endpoint import Endpoint
from mcpx.errors import MCPXError
from supervisors import Incarnation

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

H_contra = TypeVar("H_contra", contravariant=True)
"""The hub: it has these ports, so that they cannot name it."""


class SignIns(Protocol):
    """The sign-ins of people that are under way, one per server."""

    @property
    def are_waited_for(self) -> bool:
        """True while a sign-in is under way."""
        return False

    def pending(self, name: str, /) -> PendingSignIn | None:
        """Return the sign-in to a server that is under way."""
        return None

    def begin(
        self, name: str, *, scopes: Sequence[str] = (), timeout_s: float | None = None
    ) -> PendingSignIn:
        """Begin a sign-in to a server, or join the one under way; the caller has to `leave` it.

        Raises:
            MCPXError: Nobody can sign in there now, or there is no such server.
        """
        raise MCPXError(f"this MCPX signs in to no server, nor to {name}")

    def answer(self, name: str, address: str, /) -> None:
        """Take the address that a browser came back to, for the sign-in that waits for it.

        Raises:
            MCPXError: No sign-in waits for it, or it cannot be that.
        """
        raise MCPXError(f"no sign-in to {name} waits for an answer")

    async def started(self, name: str, /) -> ServerInfo:
        """Return how a server is that was signed in to, when it has been tried, or after a while."""
        raise MCPXError(f"no sign-in to {name} was begun")

    async def needed(self) -> list[str]:
        """Name the servers that need a sign-in, once all have been tried or after a while."""
        return []

    async def signed_in(self) -> list[str]:
        """Name the servers for which a sign-in is stored."""
        return []

    async def logout(self, name: str, /) -> bool:
        """Sign out of a server; return True if it was signed in.

        Raises:
            MCPXError: There is no such server, or MCPX does not sign in there.
        """
        raise MCPXError(f"this MCPX signs in to no server, nor to {name}")

    async def run(self, incarnation: Incarnation, /) -> None:
        """Carry sign-ins out: a child's `run`."""
        incarnation.ready()
        await incarnation.stopping.wait()

    def stop(self) -> None:
        """Begin no more sign-ins, and cancel those under way."""
        return


class NoSignIns(SignIns):
    """Nobody signs in anywhere."""


class Shown(Protocol):
    """The servers that are shown to who asks, at its endpoint."""

    endpoint: Endpoint
    upstreams: Mapping[str, VisibleServer]
    registry: Registry


class Peers(Elsewhere, Protocol[H_contra]):
    """The other MCPX whose servers are servers here, and what is told to those that take ours in."""

    def expand(self, config: Config, /) -> Config:
        """Return the configuration with the servers of its peers, as far as they are known."""
        if config.peers:
            raise MCPXError("this MCPX takes in no servers of others; open it with mcpx.open_hub")
        return config

    def configure(self, config: Config, hub: H_contra, /) -> None:
        """Keep the peers of a configuration that is in force now in that hub."""
        return

    async def listed(self) -> None:
        """Wait until each peer has said which servers it has, or has failed once."""
        return

    async def started(self, name: str, /) -> ServerInfo:
        """Return how a peer is that was signed in to, when it has been tried, or after a while."""
        raise MCPXError(f"no such peer: {name}")

    def status(self) -> list[PeerStatus]:
        """Return the peers, as `mcpx status` shows them."""
        return []

    async def restart(self, server: str, /) -> None:
        """Have the peer start a server again, if it is one of a peer's; what it refuses is logged."""
        return

    async def log_tail(self, server: str, lines: int, /) -> list[str] | None:
        """Return the last lines of a server's log at its peer; None for one of our own.

        Raises:
            CallError: The peer does not tell.
        """
        return None

    async def answer(
        self, shown: Shown, ctx: ServerRequestContext[Any, Any], stamp: bytes | None, /
    ) -> JSON | None:
        """Answer what another MCPX asks (`mcpx/...`), enclosed; None where such methods are unknown.

        `stamp` is as for `enveloped`.

        Raises:
            MCPError: There is no such method for it; its params are wrong; or it failed.
        """
        return None


class NoPeers(Peers[object]):
    """There are no other MCPX."""


NO_PEERS: Final = NoPeers()


class Cluster(Protocol[H_contra]):
    """The cluster that a hub is a gateway of."""

    @property
    def placement(self) -> Placement:
        """The node for each server."""

    def expand(self, config: Config) -> Config:
        """Return the configuration with all commands on nodes that may be there."""

    def join(self, hub: H_contra, /) -> None:
        """Add the children of the cluster to a hub that does not run yet."""

    async def answer(self, do: str, node: str | None, wait_s: float | None) -> JSON:
        """Do what `mcpx cluster` asks, if anything, and say how the cluster is.

        Raises:
            MCPXError: It cannot be done.
        """

    def status(self) -> ClusterStatus:
        """Return the link to Ray and the gateways, as `mcpx status` has them."""

    def nodes(self) -> list[NodeStatus]:
        """Return the nodes, as `mcpx status` shows them."""


Serve = Callable[[Any], None]
"""Serves a request over HTTP (`HttpExchange` of `mcpx.core.gateway.frontends.http`)."""


class Forwarder(Protocol):
    """Passes requests on to the replica that holds what they bring."""

    def around(self, serve: Serve, /) -> Serve:
        """Return what serves the requests of this replica by `serve`, and passes others on."""

    def seal_kept(self, result_id: str) -> str:
        """Return the id of a kept result as all replicas read it."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Open the connections to other replicas; at exit they are closed."""


class OpenForwarder(Protocol):
    """Makes the forwarder of the replica at `url`; `secret` is that of all replicas."""

    def __call__(self, url: str, secret: str) -> Forwarder: ...

"""What a hub has of its peers: nothing, until a configuration names one.

Owned by the hub. `expand` is given each configuration before it is in force, `configure` after it is. The
federation is imported for who has peers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mcpx.core.config import Config

if TYPE_CHECKING:
    from mcpx.cluster.federation.federation import Federation
    from mcpx.core.catalog.snapshot import ServerInfo
    from mcpx.core.daemon.hub import Hub
    from mcpx.core.daemon.status import PeerStatus


class Peers:
    """The peers of a hub. `own_id` gives the id of this MCPX, `state` is the state folder, if not the usual.

    `prepare` is what is made of a configuration with the servers of its peers before it is put in force.
    """

    def __init__(
        self, own_id: Callable[[], str], state: Path | None, prepare: Callable[[Config], Config]
    ) -> None:
        self._own_id = own_id
        self._state = state
        self._prepare = prepare
        self.federation: Federation | None = None

    def expand(self, config: Config) -> Config:
        """The configuration with the servers of its peers, as far as they are known."""
        if self.federation is None and config.peers:
            from mcpx.cluster.federation.federation import Federation  # noqa: PLC0415 - for who has peers

            self.federation = Federation(config.source, self._state, self._own_id())
        return self._prepare(config if self.federation is None else self.federation.expand(config))

    def configure(self, config: Config, hub: Hub) -> None:
        """Keep the peers of a configuration that is in force now in that hub."""
        if self.federation is not None:
            self.federation.configure(config, hub)

    async def listed(self) -> None:
        """Wait until it is known of each peer which servers it has, or it has failed once."""
        if self.federation is not None:
            await self.federation.listed()

    async def started(self, name: str) -> ServerInfo:
        """How a peer is that was signed in to, when it has been tried, or after a while."""
        assert self.federation is not None  # noqa: S101 - a hub with a peer has one
        return await self.federation.started(name)

    def status(self) -> list[PeerStatus]:
        """The peers, as `mcpx status` shows them."""
        return [] if self.federation is None else self.federation.status()

    async def restart(self, server: str) -> None:
        """Have the peer start a server again, if it is one of a peer's; what it refuses is logged."""
        if self.federation is not None:
            await self.federation.restart(server)

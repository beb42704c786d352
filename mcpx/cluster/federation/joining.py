"""The peers of a hub, before and after it has any: the port `Peers`, for the composition root.

The federation itself is imported when a configuration names a peer, and the directory when another MCPX asks.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpx.cluster.federation.identity import own_id
from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Config, ServerConfig
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.ports import Peers, Shown
from mcpx.core.daemon.status import PeerStatus
from mcpx.paths import configuration_folder

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from mcpx.cluster.federation.federation import Federation
    from mcpx.cluster.federation.own_directory import OwnDirectory


class Joining(Peers[Hub]):
    """The peers of a hub; none, as long as no configuration has named one.

    `source` is where its configuration comes from, `state` the state folder, if not the usual.
    """

    def __init__(self, source: str, state: Path | None) -> None:
        self._source = source
        self._state = state
        self._hub: Hub | None = None
        self.federation: Federation | None = None

    @cached_property
    def own_id(self) -> str:
        """The id of this MCPX; made at first use."""
        return own_id(configuration_folder(self._source, self._state))

    @cached_property
    def directory(self) -> OwnDirectory:
        """The directory of this MCPX, for others."""
        from mcpx.cluster.federation.own_directory import OwnDirectory  # noqa: PLC0415 - few are asked

        assert self._hub is not None  # noqa: S101 - who asks has met it
        return OwnDirectory(self._hub, self.own_id, self._via)

    def _via(self, server: str) -> tuple[str, ...]:
        return () if self.federation is None else self.federation.via(server)

    # --- the port

    def expand(self, config: Config) -> Config:
        """Return the configuration with the servers of its peers, as far as they are known."""
        if self.federation is None and config.peers:
            from mcpx.cluster.federation.federation import Federation  # noqa: PLC0415 - for who has peers

            self.federation = Federation(self._source, self._state, self.own_id)
        return config if self.federation is None else self.federation.expand(config)

    def configure(self, config: Config, hub: Hub) -> None:
        """Keep the peers of a configuration that is in force now in that hub."""
        self._hub = hub
        if self.federation is not None:
            self.federation.configure(config, hub)

    async def listed(self) -> None:
        """Wait until it is known of each peer which servers it has, or it has failed once."""
        if self.federation is not None:
            await self.federation.listed()

    async def started(self, name: str) -> ServerInfo:
        """Return how a peer is that was signed in to, when it has been tried, or after a while."""
        assert self.federation is not None  # noqa: S101 - a hub with a peer has one
        return await self.federation.started(name)

    def status(self) -> list[PeerStatus]:
        """Return the peers, as `mcpx status` shows them."""
        return [] if self.federation is None else self.federation.status()

    async def restart(self, server: str) -> None:
        """Have the peer start a server again, if it is one of a peer's; what it refuses is logged."""
        if self.federation is not None:
            await self.federation.restart(server)

    async def log_tail(self, server: str, lines: int) -> list[str] | None:
        """Return the last lines of a server's log at its peer; None for one of our own."""
        return None if self.federation is None else await self.federation.log_tail(server, lines)

    def as_peer_says(self, server: ServerConfig, info: ServerInfo) -> ServerInfo:
        """Return how a server of a peer is, as far as the peer knows better."""
        return info if self.federation is None else self.federation.as_peer_says(server, info)

    def account_changed(self, name: str) -> None:
        """Try a peer again whose account has tokens now."""
        if self.federation is not None:
            self.federation.account_changed(name)

    async def answer(
        self, shown: Shown, ctx: ServerRequestContext[Any, Any], stamp: bytes | None
    ) -> JSON | None:
        """Answer what another MCPX asks, enclosed."""
        from mcpx.cluster.federation.questions import answer  # noqa: PLC0415 - for those who are peers

        return await answer(self.directory, shown, ctx, stamp)

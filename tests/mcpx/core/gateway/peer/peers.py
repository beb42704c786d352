"""Peers of one server: on a stream by the fast path and the SDK's, and over HTTP, in each era."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2

from mcpx.core.config import HttpGateway
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from mcpx.core.gateway.peer.fast_path import PeerFastPath, peer_connection
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.wire.dispatcher import WireDispatcher
from supervisors import ChildSpec
from tests.mcpx.core.gateway.endpoints import ERAS, HttpEndpoint, LineEndpoint
from tests.mcpx.core.gateway.native.connecting import Gateway
from tests.mcpx.scripted import PATIENCE_S, Watch, config_of, open_watched

ENDPOINTS = [(name, era) for name in ("fast", "slow", "http") for era in ERAS]


class PeerLine(LineEndpoint):
    """A peer on a stream."""

    def fast_path(self, server: Any, connection: Any) -> Any:
        return PeerFastPath(server, connection)


class Peers:
    """Those of one hub, by the names of their way and their era."""

    def __init__(self, watch: Watch, endpoints: Endpoints, url: str) -> None:
        self.watch = watch
        self.hub: Hub = watch.hub
        self.endpoints = endpoints
        self.url = url
        self._stack = AsyncExitStack()

    async def join(
        self, name: str, era: str, *, server: str = "s", **endpoint: Any
    ) -> PeerLine | HttpEndpoint:
        """A peer that has not greeted yet."""
        modern = era == "modern"
        if name == "http":
            client = await self._stack.enter_async_context(httpx2.AsyncClient(timeout=PATIENCE_S))
            at_endpoint = HttpEndpoint(client, f"{self.url}/peers/{server}", modern=modern)
            if modern:
                await at_endpoint.open()
            return at_endpoint
        line = PeerLine(self.hub, modern=modern, slow=name == "slow")
        at = self.endpoints.peer(Endpoint(peer=server, **endpoint))
        joined: PeerLine = await self._stack.enter_async_context(line.connected(at))
        return joined

    async def open(self, name: str, era: str, **more: Any) -> PeerLine | HttpEndpoint:
        """A peer with a session."""
        peer = await self.join(name, era, **more)
        await peer.open()
        return peer


@asynccontextmanager
async def open_peers(
    servers: dict[str, Any], *, settled: bool = True, **settings: Any
) -> AsyncIterator[Peers]:
    """A hub over these servers."""
    async with AsyncExitStack() as stack:
        watch = await stack.enter_async_context(open_watched(config_of(servers, **settings), settled=settled))
        clients = ClientSessions(watch.hub)
        endpoints = Endpoints(watch.hub, clients)
        listener = stack.enter_context(listen("127.0.0.1", 0))
        http = HttpFrontend(endpoints, listener, HttpGateway(), token=None, limit=1 << 24)
        watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
        watch.hub.root.add(ChildSpec(name="http", run=http.run))
        peers = Peers(watch, endpoints, http.url)
        async with peers._stack:
            yield peers


class PeerGateway(Gateway):
    """A hub at whose peer endpoints the SDK's clients connect, on streams as a daemon serves them."""

    def __init__(self, watch: Watch, clients: ClientSessions, server: str) -> None:
        self.endpoints = Endpoints(watch.hub, clients)
        super().__init__(watch, clients, self.endpoints.peer(Endpoint(peer=server)))  # type: ignore[arg-type]

    def connection(self, wire: WireDispatcher) -> Any:
        return peer_connection(self.server, "socket", wire)  # type: ignore[arg-type]


@asynccontextmanager
async def open_peer_gateway(
    server: str, servers: dict[str, Any], **settings: Any
) -> AsyncIterator[PeerGateway]:
    """A hub over these servers, with the peer endpoint of one."""
    async with open_watched(config_of(servers, **settings)) as watch:
        clients = ClientSessions(watch.hub)
        watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
        yield PeerGateway(watch, clients, server)

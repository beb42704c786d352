"""MCPX that are servers of each other: hubs in this process, each with HTTP and a state folder of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcpx.core.config import HttpGateway
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from supervisors import ChildSpec
from tests.mcpx.scripted import QUICK, Watch, config_of, open_watched, soon


class Link:
    """One MCPX of a chain."""

    def __init__(self, watch: Watch, url: str) -> None:
        self.watch = watch
        self.hub = watch.hub
        self.url = url

    async def has(self, *names: str) -> None:
        """Wait until it has these servers, each ready."""
        await soon(lambda: all(name in self.hub.upstreams for name in names))
        for name in names:
            upstream = self.hub.upstreams[name]
            if upstream.queue.is_asleep:
                upstream.queue.wake()
            await soon(lambda upstream=upstream: upstream.main.info().ready)  # type: ignore[misc]


def peer(url: str, **more: Any) -> dict[str, Any]:
    """The entry of an MCPX at that address."""
    return {"url": url, "mcpx": True, "restart": {**QUICK, "park_after": 1000}, **more}


@asynccontextmanager
async def open_link(
    state: Path, servers: dict[str, Any], *, port: int = 0, settled: bool = True, **settings: Any
) -> AsyncIterator[Link]:
    """An MCPX with these servers, or other MCPX."""
    await anyio.Path(state).mkdir(exist_ok=True)
    with listen("127.0.0.1", port) as listener:
        config = config_of(servers, **settings)
        async with open_watched(config, settled=settled, state=state) as watch:
            clients = ClientSessions(watch.hub)
            http = HttpFrontend(
                Endpoints(watch.hub, clients), listener, HttpGateway(), token=None, limit=1 << 24
            )
            watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
            watch.hub.root.add(ChildSpec(name="http", run=http.run))
            yield Link(watch, http.url)

"""Hosts with capabilities of their own at the endpoint for all servers: on streams and over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2

from mcpx.core.config import HttpGateway
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from mcpx.core.system.endpoint import Endpoint
from supervisors import ChildSpec
from tests.mcpx.core.gateway.endpoints import ERAS, HttpEndpoint, LineEndpoint
from tests.mcpx.scripted import PATIENCE_S, Watch, config_of, open_watched

WAYS = [(way, era) for way in ("fast", "slow", "http") for era in ERAS]
Host = LineEndpoint | HttpEndpoint


class Hosts:
    """A hub to which hosts come. `greeted` is what the last one was told first."""

    def __init__(
        self,
        watch: Watch,
        http: HttpFrontend,
        client: httpx2.AsyncClient,
        endpoints: Endpoints,
        stack: AsyncExitStack,
    ) -> None:
        self.watch = watch
        self.hub = watch.hub
        self.endpoints = endpoints
        self.url = http.url
        self.greeted: Any = None
        self._client = client
        self._stack = stack

    async def host(self, way: str, era: str, *, expose: Any = "all", capabilities: Any = None) -> Host:
        """Connect a host."""
        modern, host = era == "modern", None
        if way == "http":
            url = f"{self.url}?expose={expose}"
            host = HttpEndpoint(self._client, url, modern=modern, capabilities=capabilities)
        else:
            host = LineEndpoint(self.hub, modern=modern, slow=way == "slow", capabilities=capabilities)
            server = self.endpoints.gateway(Endpoint(expose=expose))
            await self._stack.enter_async_context(host.connected(server))
        greeted = await host.open()
        self.greeted = await result_of(host, "server/discover", {}) if modern else greeted
        return host


@asynccontextmanager
async def open_hosts(
    servers: dict[str, Any], *, settled: bool = True, **settings: Any
) -> AsyncIterator[Hosts]:
    """A hub over these servers."""
    async with AsyncExitStack() as stack:
        watch = await stack.enter_async_context(open_watched(config_of(servers, **settings), settled=settled))
        listener = stack.enter_context(listen("127.0.0.1", 0))
        sessions = ClientSessions(watch.hub)
        endpoints = Endpoints(watch.hub, sessions)
        http = HttpFrontend(endpoints, listener, HttpGateway(), token=None, limit=1 << 24)
        watch.hub.root.add(ChildSpec(name="clients", run=sessions.run))
        watch.hub.root.add(ChildSpec(name="http", run=http.run))
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=PATIENCE_S))
        yield Hosts(watch, http, client, endpoints, stack)


async def result_of(host: Host, method: str, params: dict[str, Any]) -> Any:
    answer = await host.answer(method, params)
    assert answer.error is None, answer.error
    return json.loads(bytes(answer.result))


async def error_of(host: Host, method: str, params: dict[str, Any]) -> Any:
    answer = await host.answer(method, params)
    assert answer.error is not None, answer.result
    return answer.error


async def tools_of(host: Host) -> dict[str, Any]:
    return {each["name"]: each for each in (await result_of(host, "tools/list", {}))["tools"]}


async def call(host: Host, name: str, **arguments: Any) -> Any:
    """The first text of the result of a tool."""
    return (await result_of(host, "tools/call", {"name": name, "arguments": arguments}))["content"][0]["text"]

"""The transparent endpoint over HTTP: sessions, deaths, removal, and the headers of its clients."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from mcpx.core.config import parse
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.connection import Shared
from mcpx.core.gateway.frontends.http.endpoints import HttpEndpoints
from mcpx.core.gateway.frontends.http.frontend import listen
from mcpx.core.gateway.frontends.http.server import HttpServer
from tests.faults.stage_http import WickedProcess
from tests.mcpx.core.gateway.transparent.talking import over_http
from tests.mcpx.core.gateway.transparent.test_equality import ENVELOPE, HELLO, entry, handshake
from tests.mcpx.scripted import config_of, open_watched, soon

pytestmark = pytest.mark.anyio
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}


class Site:
    """Lets everything in."""

    def __init__(self, endpoints):
        self.serve = endpoints.serve

    def look(self, _exchange):
        return None


@asynccontextmanager
async def served(**servers):
    """A hub with these servers, and a client of their transparent endpoints."""
    async with open_watched(config_of(servers or {"odd": entry()})) as watch:
        clients = ClientSessions(watch.hub)
        endpoint = HttpEndpoints(Endpoints(watch.hub, clients), 1 << 24)
        listener = listen("127.0.0.1", 0)
        server = HttpServer(Site(endpoint), Shared(1 << 24, lambda: None))
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with anyio.create_task_group() as tasks, endpoint.running():
            tasks.start_soon(clients.outbox.run)
            tasks.start_soon(server.serve, listener)
            async with httpx2.AsyncClient(base_url=base, timeout=30) as client:
                yield watch, client
            tasks.cancel_scope.cancel()


def direct(watch, server="odd"):
    return list(watch.hub.upstreams[server].direct.values())


@asynccontextmanager
async def talking(client, path="/mcp/servers/odd"):
    async with over_http(path, client=client) as talk:
        yield talk


async def test_each_session_has_its_own_server_until_it_is_deleted():
    async with served() as (watch, client), talking(client) as one, talking(client) as two:
        await handshake(one)
        await handshake(two, "2024-11-05")
        assert len(direct(watch)) == 2
        assert (await one.ask("ping", None, 2))["result"] == {"pong": True}
        answer = await client.delete("/mcp/servers/odd", headers=one.headers)
        assert answer.status_code == 200
        await soon(lambda: len(direct(watch)) == 1)
        assert (await two.ask("ping", None, 2))["result"] == {"pong": True}


async def test_a_server_that_dies_in_a_call_is_lost_with_the_outcome_and_comes_back():
    async with served() as (_, client), talking(client) as talk:
        await handshake(talk)
        lost = await talk.ask("tools/call", '{"name":"die"}', 2)
        assert lost["error"]["code"] == -32603
        assert lost["error"]["data"]["outcome"] == "unknown"
        assert (await talk.ask("tools/list", None, 3))["result"]["nextCursor"] == "p 2"


async def test_a_name_is_decoded_and_an_unknown_one_is_not_found():
    async with served(**{"my odd/one": entry()}) as (watch, client):
        async with talking(client, "/mcp/servers/my%20odd%2Fone") as talk:
            await handshake(talk)
        answer = await client.post("/mcp/servers/odd", json={})
        assert answer.status_code == 404
        assert answer.json()["error"]["message"].startswith("No server odd")
        gone = {"mcpServers": {"other": {"command": "true"}}, "shutdown_grace": 0.2}
        await watch.hub.reload(parse(json.dumps(gone), where="test"))
        assert (await client.post("/mcp/servers/my%20odd%2Fone", json={})).status_code == 404
        back = {"mcpServers": {"my odd/one": entry()}, "shutdown_grace": 0.2}
        await watch.hub.reload(parse(json.dumps(back), where="test"))
        async with talking(client, "/mcp/servers/my%20odd%2Fone") as talk:
            await handshake(talk)


async def test_initialize_is_no_method_of_2026_07_28_over_http():
    async with served() as (_, client):
        hello = json.loads(HELLO % "2026-07-28") | json.loads("{" + ENVELOPE + "}")
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        answer = await client.post(
            "/mcp/servers/odd", json=message, headers=HEADERS | {"mcp-method": "initialize"}
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_call_to_a_server_that_can_be_reached_no_more_is_lost(era):
    server = WickedProcess({"era": era})
    await server.start()
    try:
        url = f"http://127.0.0.1:{server.options['port']}/mcp"
        settings = {"url": url, "silence_probe": 0.5, "health_check_timeout": 0.5}
        async with served(w=settings) as (_, client), talking(client, "/mcp/servers/w") as talk:
            if era == "legacy":
                await handshake(talk, "2025-11-25")
            else:
                talk.headers["mcp-protocol-version"] = "2026-07-28"
            await server.order(rule={"at": "tools/call", "do": "hang"})
            params = '{"name":"act"' + (f",{ENVELOPE}" if era == "modern" else "") + "}"
            async with anyio.create_task_group() as tasks:

                async def vanish() -> None:
                    while not (await server.order())["seen"].get("tools/call"):
                        pass
                    await server.order(vanish=True)

                tasks.start_soon(vanish)
                lost = await talk.ask("tools/call", params, 2)
            assert lost["error"]["data"]["outcome"] == "unknown"
            assert "nothing has come" in json.dumps(lost)
    finally:
        await server.kill()

"""The clients that are attached, as they call themselves, until they leave."""

from __future__ import annotations

import pytest

from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.system.endpoint import Endpoint
from tests.mcpx.line import Line
from tests.mcpx.scripted import one_server, soon

pytestmark = pytest.mark.anyio
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2", "title": "A <b>modern</b> one"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


async def test_a_client_with_a_handshake_is_there_until_it_leaves():
    async with one_server() as watch:
        clients = ClientSessions(watch.hub)
        endpoint = Endpoint(only=("s",))
        async with Line(watch.hub).connected(GatewayServer(watch.hub, clients, endpoint)) as line:
            assert clients.attached.all() == []
            await line.initialize({"name": "x" * 300, "version": "1\x1b[31m\n2"})
            await line.ask("tools/list", {})
            (client,) = clients.attached.all()
            assert client.name.startswith("xxx")
            assert len(client.name) < 80
            assert "\x1b" not in client.version
            assert "\n" not in client.version
            assert (client.transport, client.endpoint, client.title) == ("stdio", endpoint, "")
        await soon(lambda: not clients.attached.all())


async def test_a_client_without_a_handshake_is_one_client_for_all_its_requests():
    async with one_server() as watch:
        clients = ClientSessions(watch.hub)
        async with Line(watch.hub).connected(GatewayServer(watch.hub, clients)) as line:
            for _ in range(3):
                await line.ask("tools/list", {"_meta": MODERN})
            (client,) = clients.attached.all()
            assert (client.name, client.version) == ("modern", "2")
            assert client.title == "A <b>modern</b> one"
        await soon(lambda: not clients.attached.all())

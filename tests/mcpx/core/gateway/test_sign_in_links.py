"""Links to sign in by, through the gateway: streams on both paths and HTTP, both eras."""

from __future__ import annotations

import json
import os
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from mcpx.core.config import HttpGateway
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from mcpx.core.policy.tokens import issue
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT
from supervisors import ChildSpec
from tests.mcpx.core.calls.signing import needs_sign_in
from tests.mcpx.line import Line
from tests.mcpx.scripted import PATIENCE_S
from tests.mcpx.serving import ENVELOPE

pytestmark = pytest.mark.anyio

CAPABILITIES = {"elicitation": {"form": {}, "url": {}}}
OPENS_LINKS = ENVELOPE | {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES}
CALL = {
    "name": "exec",
    "arguments": {"server_name": "s", "tool_name": "count", "arguments": {"key": "k"}},
}


class LinkLine(Line):
    """A client of a stream whose person opens every link."""

    def __init__(self, scene, *, modern):
        super().__init__(scene.hub)
        self.asked = []
        self.completed = []
        self._modern = modern
        self._scene = scene

    async def open(self):
        if not self._modern:
            about = {"name": "test", "version": "1"}
            given = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": about}
            await self.ask("initialize", given)
            os.write(self._out, b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')

    async def call(self):
        """The text of a call's result, and whether it is an error."""
        more, result = {}, {"resultType": "input_required"}
        while result.get("resultType") == "input_required":
            envelope = {"_meta": OPENS_LINKS} if self._modern else {}
            result = await self.ask("tools/call", CALL | envelope | more)
            answers = {
                key: await self.open_link(each) for key, each in result.get("inputRequests", {}).items()
            }
            more = {"inputResponses": answers}
        return result["content"][0]["text"], result.get("isError", False)

    async def open_link(self, request):
        self.asked.append(request["params"])
        await anyio.to_thread.run_sync(self._scene.issuer.browse, request["params"]["url"])
        return {"action": "accept"}

    async def _next(self):
        message = await super()._next()
        if message.get("method") == "elicitation/create":
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": await self.open_link(message)}
            os.write(self._out, json.dumps(answer).encode() + b"\n")
            return await self._next()
        if message.get("method") == "notifications/elicitation/complete":
            self.completed.append(message["params"]["elicitationId"])
        return message


@asynccontextmanager
async def gateway(tmp_path, **options):
    """A scene with endpoints to it."""
    async with needs_sign_in(tmp_path, top={"login_port": 18787, "startup_wait": 20}, **options) as scene:
        sessions = ClientSessions(scene.hub)
        scene.hub.root.add(ChildSpec(name="sessions", run=sessions.run))
        yield scene, Endpoints(scene.hub, sessions)


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
@pytest.mark.parametrize("slow", [False, True], ids=["fast", "sdk"])
async def test_a_client_of_a_stream_signs_in_by_a_link(tmp_path, modern, slow):
    async with (
        gateway(tmp_path) as (scene, endpoints),
        LinkLine(scene, modern=modern).connected(endpoints.gateway(DEFAULT_ENDPOINT)) as client,
    ):
        client.slow = slow
        await client.open()
        for count in 1, 2:  # its tools are not known at first, and then they are
            assert await client.call() == ("k", False)
            assert (len(client.asked), len(scene.issuer.calls)) == (count, count)
            scene.issuer.revoke_all()
        assert (client.fast > 0) is not slow
        if not modern:
            while len(client.completed) < 2:
                await client._next()
            assert client.completed == [each["elicitationId"] for each in client.asked]


@asynccontextmanager
async def http_client(scene, endpoints, *, mode, token=None, bearer=None):
    """A client of the SDK over HTTP, whose person opens every link; and how often they were asked."""
    asked = []

    async def elicit(_ctx, params):
        asked.append(params.url)
        await anyio.to_thread.run_sync(scene.issuer.browse, params.url)
        return ElicitResult(action="accept")

    async with AsyncExitStack() as stack:
        listener = stack.enter_context(listen("127.0.0.1", 0))
        http = HttpFrontend(endpoints, listener, HttpGateway(), token=token, limit=1 << 24)
        scene.hub.root.add(ChildSpec(name="http", run=http.run))
        headers = {"Authorization": f"Bearer {bearer or token}"} if token else {}
        plain = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S))
        transport = streamable_http_client(http.url, http_client=plain)
        client = Client(transport, mode=mode, elicitation_callback=elicit)
        yield await stack.enter_async_context(client), asked


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_over_http_with_the_default_token_signs_in_by_a_link(tmp_path, mode):
    async with (
        gateway(tmp_path) as (scene, endpoints),
        http_client(scene, endpoints, mode=mode, token="default") as (client, asked),
    ):
        result = await client.call_tool("exec", CALL["arguments"])
        assert (result.content[0].text, len(asked)) == ("k", 1)
        assert scene.issuer.calls == ["k"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_with_a_token_of_a_name_gets_no_link(tmp_path, mode, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    named, _ = issue("ann", profile=None, expires=None, now=datetime.now(UTC))
    async with (
        gateway(tmp_path) as (scene, endpoints),
        http_client(scene, endpoints, mode=mode, token="default", bearer=named) as (client, asked),
    ):
        result = await client.call_tool("exec", CALL["arguments"])
        assert result.is_error
        assert "needs sign-in: run: mcpx login s" in result.content[0].text
        assert asked == []

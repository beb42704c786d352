"""Requests at a transparent endpoint of a server that wants a sign-in."""

from __future__ import annotations

import asyncio
import json

import anyio
import msgspec
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.gateway.transparent.sessions import TransparentSessions
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.passthrough.client import DirectClient
from mcpx.errors import CallError
from tests.mcpx.core.calls.signing import OPENS_LINKS, needs_sign_in
from tests.mcpx.oauth.scripted_issuer import Fault
from tests.mcpx.scripted import PATIENCE_S

pytestmark = pytest.mark.anyio

LINK = "mcpx/sign-in"
CALL = {"name": "count", "arguments": {"key": "k"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": json.loads(OPENS_LINKS),
}
HELLO = {
    "protocolVersion": "2025-11-25",
    "clientInfo": {"name": "t", "version": "1"},
    "capabilities": json.loads(OPENS_LINKS),
}


class Visitor:
    """A client of the endpoint, with a person who opens links or does not."""

    def __init__(self, scene, *, action="accept", is_local=True):
        self.is_local = is_local
        self.scene = scene
        self.action = action
        self.asked = []
        self.sessions = TransparentSessions(scene.hub, "s", "stdio")
        self.client = DirectClient(self)

    def notify(self, method, params): ...

    def ask(self, method, params, on_answer):
        assert method == "elicitation/create"
        self.asked.append(json.loads(bytes(params)))
        answer = msgspec.Raw(b'"result":' + json.dumps({"action": self.action}).encode())
        loop = asyncio.get_running_loop()

        def open_link():
            if self.action == "accept":
                self.scene.issuer.browse(self.asked[-1]["url"])
            loop.call_soon_threadsafe(on_answer, answer)

        loop.run_in_executor(None, open_link)
        return lambda _said: None

    async def send(self, method, params):
        request = self.sessions.request(method, json.dumps(params).encode(), 1, self)
        reply = RawReply()
        self.sessions.submit(self.client, request, reply)
        with anyio.fail_after(PATIENCE_S):
            return json.loads(b"{" + bytes(await reply.wait()) + b"}")

    async def hello(self):
        """Shake hands, while there is a token; it is gone afterwards."""
        await self.scene.sign_in()
        await self.scene.becomes(State.READY)
        assert "result" in await self.send("initialize", HELLO)
        self.sessions.notify(self.client, "notifications/initialized", msgspec.Raw())
        self.scene.issuer.grants.access.clear()


@pytest.fixture
async def scene(tmp_path):
    async with needs_sign_in(tmp_path, top={"login_port": 18777}) as scene:
        yield scene


async def test_a_handshake_fails_with_the_command(scene):
    with pytest.raises(CallError, match="needs sign-in: run: mcpx login s"):
        await Visitor(scene).send("initialize", HELLO)


async def test_a_client_with_a_session_is_asked_and_its_call_runs_once(scene):
    visitor = Visitor(scene)
    await visitor.hello()
    result = await visitor.send("tools/call", CALL)
    assert "k" in str(result["result"])
    (params,) = visitor.asked
    assert (params["mode"], bool(params["elicitationId"])) == ("url", True)
    assert scene.issuer.calls == ["k"]


async def test_a_client_of_2026_gets_the_link_and_comes_back(scene):
    visitor = Visitor(scene)
    first = await visitor.send("tools/call", {**CALL, "_meta": META})
    params = first["result"]["inputRequests"][LINK]["params"]
    await anyio.to_thread.run_sync(scene.issuer.browse, params["url"])
    answers = {"inputResponses": {LINK: {"action": "accept"}}}
    result = await visitor.send("tools/call", {**CALL, **answers, "_meta": META})
    assert "k" in str(result["result"])
    assert scene.issuer.calls == ["k"]
    assert not [each for each in scene.issuer.seen("mcp:tools/call") if b"inputResponses" in each.body]


@pytest.mark.parametrize("visitor", [{"action": "decline"}, {"is_local": False}], ids=str)
async def test_who_opens_no_link_gets_the_error(scene, visitor):
    visitor = Visitor(scene, **visitor)
    await visitor.hello()
    with pytest.raises(CallError, match="needs sign-in: run: mcpx login s"):
        await visitor.send("tools/call", CALL)
    assert scene.issuer.calls == []


async def test_another_scope_is_agreed_to_by_a_link(scene):
    visitor = Visitor(scene)
    await visitor.hello()
    await visitor.send("tools/call", CALL)
    result = await visitor.send("tools/call", {"name": "admin", "arguments": {"key": "x"}})
    assert "result" in result
    assert (scene.issuer.calls, len(visitor.asked)) == (["k", "x"], 2)


async def test_all_sessions_go_on_once_somebody_has_signed_in(scene):
    visitors = Visitor(scene, action="decline"), Visitor(scene, action="decline")
    for visitor in visitors:
        await visitor.hello()
        with pytest.raises(CallError):
            await visitor.send("tools/call", CALL)
    await scene.sign_in()
    for visitor in visitors:
        assert "result" in await visitor.send("tools/call", CALL)


async def test_a_token_that_cannot_be_renewed_now_is_said(scene):
    visitor = Visitor(scene)
    await visitor.hello()
    await visitor.send("tools/call", CALL)
    scene.issuer.expire()
    scene.issuer.faults["token:refresh_token"] = Fault(status=503)
    with pytest.raises(CallError, match="cannot be renewed at the moment"):
        await visitor.send("tools/call", CALL)
    assert scene.issuer.calls == ["k"]

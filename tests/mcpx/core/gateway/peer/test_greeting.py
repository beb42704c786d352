"""What the server is, as another MCPX is told; and what it is told where there is nothing to tell."""

from __future__ import annotations

import json

import anyio
import httpx2
import pytest

from mcpx.core.catalog.snapshot import State
from tests.mcpx.core.gateway.endpoints import ACCEPT
from tests.mcpx.core.gateway.peer.peers import ENDPOINTS, open_peers
from tests.mcpx.scripted import PATIENCE_S, Gate, entry
from tests.mcpx.serving import LEGACY

pytestmark = pytest.mark.anyio
INFO = "io.modelcontextprotocol/serverInfo"
ABOUT = {"name": "test", "version": "1"}
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": ABOUT}


async def greet(peer, era):
    method, params = ("initialize", HELLO) if era == "handshake" else ("server/discover", {})
    with anyio.fail_after(PATIENCE_S):
        return await peer.answer(method, params)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_it_waits_for_the_server_and_is_its_own(tmp_path, endpoint):
    about = tmp_path / "about"
    about.write_text(json.dumps({"name": "shop", "title": "The Shop", "instructions": "Buy."}))
    with Gate(tmp_path / "gate") as gate:
        async with open_peers({"s": entry(about=str(about), gate=str(gate.path))}, settled=False) as peers:
            peer = await peers.join(*endpoint)
            async with anyio.create_task_group() as tasks:
                found = []

                async def ask():
                    found.append(await greet(peer, endpoint[1]))

                tasks.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                assert not found
                gate.let_one_through()
            result = json.loads(bytes(found[0].result))
            info = result["serverInfo"] if endpoint[1] == "handshake" else result["_meta"][INFO]
            assert (info["name"], info["title"]) == ("shop", "The Shop")
            assert result["instructions"] == "Buy."
            assert result["capabilities"]["tools"] == {"listChanged": True}
            assert "prompts" not in result["capabilities"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_a_server_that_cannot_be_had_is_an_error_and_the_other_era_may_be_asked(endpoint):
    async with open_peers({"s": entry(exit=3)}) as peers:
        await peers.watch.becomes(State.PARKED)
        peer = await peers.join(*endpoint)
        told = (await greet(peer, endpoint[1])).error["data"]["mcpx"]
        assert (told["code"], told["outcome"]) == ("server_unavailable", "not_sent")
        assert told["server"] == "s"
        assert "3" in told["cause"]
        if endpoint[0] != "http":
            peer._modern = not peer._modern
            again = await greet(peer, "modern" if peer._modern else "handshake")
            assert again.error["data"]["mcpx"]["code"] == "server_unavailable"


async def test_a_greeting_that_fails_late_is_answered_on_its_stream(tmp_path):
    with Gate(tmp_path / "gate") as gate:
        async with open_peers({"s": entry(exit=3, gate=str(gate.path))}, settled=False) as peers:
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
            async with (
                httpx2.AsyncClient(timeout=PATIENCE_S) as client,
                client.stream("POST", f"{peers.url}/peers/s", json=hello, headers=ACCEPT) as response,
            ):
                assert response.headers["content-type"] == "text/event-stream"  # it has taken long
                for _ in range(20):
                    gate.let_one_through()
                assert b"server_unavailable" in await response.aread()


async def test_one_that_has_listed_before_is_served_while_it_is_down(tmp_path):
    wanted = tmp_path / "wanted"
    wanted.touch()
    async with open_peers({"s": entry(wants=str(wanted))}) as peers:
        await peers.watch.becomes(State.READY)
        wanted.unlink()
        first = await peers.open("fast", "handshake")
        lost = (await first.answer("tools/call", {"name": "die", "arguments": {}})).error
        assert lost["data"]["mcpx"]["outcome"] == "unknown"
        await peers.watch.becomes(State.PARKED)
        peer = await peers.join("fast", "modern")
        assert (await greet(peer, "modern")).error is None
        assert json.loads(bytes((await peer.answer("tools/list", {})).result))["tools"]


async def test_over_http_a_server_with_a_session_for_each_client_takes_a_handshake():
    async with open_peers({"s": entry(settings={"sessions": "per_client"})}) as peers:
        modern = await peers.join("http", "modern")
        for method in ("server/discover", "tools/list"):
            error = (await modern.answer(method, {})).error
            assert error["code"] == -32022
            assert "2025-11-25" in error["data"]["supported"]
        call = ("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
        two = [await peers.open("http", "handshake") for _ in range(2)]
        for each in two:
            assert (await each.answer(*call)).error is None
        stream = await peers.open("fast", "modern")
        assert (await stream.answer(*call)).error is None
        assert len(peers.hub.upstreams["s"].clients.by_client) == 3

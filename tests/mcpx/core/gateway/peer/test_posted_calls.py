"""Plain calls of peers over HTTP are served without the SDK, with the same answers."""

from __future__ import annotations

import gc
import json

import anyio
import httpx2
import pytest

from mcpx.core.gateway.fast.call import FastCall
from mcpx.core.gateway.frontends.http.posted import Posted
from mcpx.core.gateway.peer.fast_path import PeerFastPath
from tests.mcpx.core.gateway.peer.peers import open_peers
from tests.mcpx.core.servers.relay.answering import asking_server
from tests.mcpx.scripted import PATIENCE_S, Ears, entry, soon
from tests.mcpx.serving import ENVELOPE, MODERN

pytestmark = pytest.mark.anyio
SDK = [("X-Odd", "1"), ("X-Odd", "2")]  # what is unusual is left to the SDK


@pytest.fixture
def taken(monkeypatch):
    """Whether each call was served without the SDK."""
    found = []
    take = PeerFastPath.take

    def noted(self, wire, request_id, method, raw):
        found.append(take(self, wire, request_id, method, raw))
        return found[-1]

    monkeypatch.setattr(PeerFastPath, "take", noted)
    return found


def posted(tool, arguments, meta=None, name=None):
    params = {"name": tool, "arguments": arguments, "_meta": {**ENVELOPE, **(meta or {})}}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name or tool,
    }
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    return {"json": body, "headers": headers}


CALLS = (
    ("echo", {"text": "grüße\n"}, None, None),
    ("fail", {"text": "no"}, None, None),
    ("echo", {"text": 5}, None, None),
    ("die", {}, None, None),
    ("nothing", {}, None, None),
    ("echo", {"text": "x"}, {"io.modelcontextprotocol/protocolVersion": "2025-06-18"}, None),
    ("echo", {"text": "x"}, {"io.modelcontextprotocol/clientInfo": {}}, None),
    ("echo", {"text": "x"}, None, "fail"),
    ("echo", [], None, None),
)


async def test_the_answers_are_those_of_the_sdk(taken):
    async with open_peers({"s": entry()}) as peers, httpx2.AsyncClient(timeout=PATIENCE_S) as http:
        for given in CALLS:
            request = posted(*given)
            answers = []
            for more in ([], SDK):
                headers = [*request["headers"].items(), *more]
                got = await http.post(f"{peers.url}/peers/s", json=request["json"], headers=headers)
                answers.append(json.loads(got.text))
            assert answers[0] == answers[1], given
        await soon(lambda: len(taken) == len(CALLS))
        assert taken == [True] * 5 + [False] * 4


def kept() -> set[int]:
    gc.collect()
    return {id(each) for each in gc.get_objects() if isinstance(each, Posted | FastCall)}


async def test_nothing_is_left_of_a_call_that_is_over(taken):
    async with open_peers({"s": entry()}) as peers, httpx2.AsyncClient(timeout=PATIENCE_S) as http:
        before = kept()
        for _ in range(5):
            await http.post(f"{peers.url}/peers/s", **posted("echo", {"text": "x"}))
        await soon(lambda: taken == [True] * 5)
        await soon(lambda: kept() <= before)


async def test_progress_comes_before_the_answer_in_a_stream_of_events(taken):
    async with (
        asking_server("stdio-modern") as server,
        open_peers({"s": server}) as peers,
        httpx2.AsyncClient(timeout=PATIENCE_S) as http,
    ):
        got = await http.post(f"{peers.url}/peers/s", **posted("steps", {"count": 3}, {"progressToken": "t"}))
        assert got.headers["content-type"] == "text/event-stream"
        lines = [line.removeprefix("data: ") for line in got.text.splitlines() if line.startswith("data: ")]
        *steps, answer = map(json.loads, lines)
        assert [(each["params"]["progressToken"], each["params"]["progress"]) for each in steps] == [
            ("t", 1),
            ("t", 2),
            ("t", 3),
        ]
        assert answer["id"] == 7
        await soon(lambda: taken == [True])


async def test_the_call_of_a_peer_that_leaves_is_cancelled(taken, tmp_path):
    with Ears(tmp_path / "ears") as ears:
        async with open_peers({"s": entry(ears)}) as peers, anyio.create_task_group() as tasks:

            async def call():
                async with httpx2.AsyncClient(timeout=PATIENCE_S) as http:
                    await http.post(f"{peers.url}/peers/s", **posted("hang", {}))

            tasks.start_soon(call)
            await ears.hear("call", tool="hang")
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await ears.hear("cancelled")
                await soon(lambda: taken == [True])

"""What a client with a token should not do to replicas: have them send elsewhere, mix up endpoints."""

from __future__ import annotations

import json
import socket
from contextlib import AsyncExitStack

import anyio
import pytest

from mcpx.cluster.replicas.seals import Seals
from tests.mcpx.cluster.replicas.site import (
    KEY,
    MODERN_ENVELOPE,
    SECRET,
    TOKEN,
    Client,
    counted_in,
    replica,
    text_of,
)
from tests.mcpx.serving import MODERN, PATIENCE_S

pytestmark = pytest.mark.anyio
YES = {"action": "accept", "content": {"ok": True}}


class Listener:
    """A program that must hear nothing, or that hears what a replica really sends."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.heard: list[bytes] = []

    async def run(self):
        self.socket.setblocking(False)
        while True:
            await anyio.wait_readable(self.socket)
            taken, _ = self.socket.accept()
            with taken:
                taken.setblocking(False)
                heard = b""
                while b"\r\n\r\n" not in heard:
                    await anyio.wait_readable(taken)
                    heard += taken.recv(65536)
                self.heard.append(heard)
                taken.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")


async def sent(port, target, body, *headers):
    """What a replica answers to a request whose target is written so."""
    head = [
        f"POST {target} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: {KEY['Authorization']}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {MODERN}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send("\r\n".join([*head, "", ""]).encode() + body)
        answer = b""
        with anyio.fail_after(PATIENCE_S):
            async for data in stream:
                answer += data
    return answer


async def test_no_target_of_a_request_has_it_passed_on_to_another_host(tmp_path):
    async with AsyncExitStack() as stack:
        holder, other = Listener(), Listener()
        for each in (holder, other):
            stack.callback(each.socket.close)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        for each in (holder, other):
            tasks.start_soon(each.run)
        at = await stack.enter_async_context(replica(tmp_path, tmp_path / "counted", names=("new",)))
        state = Seals(f"http://127.0.0.1:{holder.port}", SECRET).seal_state("mcpx-held-x")
        params = {"name": "x", "arguments": {}, "requestState": state, "_meta": MODERN_ENVELOPE}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        elsewhere = f"127.0.0.1:{other.port}"
        targets = [
            f"%2Fmcp%2Fpeers%2Fx@{elsewhere}",
            f"%2Fmcp%2Fpeers%2Fx@{elsewhere}%2F",
            f"%2fmcp%2fservers%2fx@{elsewhere}?x",
            f"%2Fmcp%2Fx@{elsewhere}",
            f"/mcp/peers/x@{elsewhere}",
            f"/mcp/peers//{elsewhere}/",
            f"/mcp/peers/../../x@{elsewhere}",
            "/mcp?" + "x" * 30_000,
        ]
        for target in targets:
            answer = await sent(at.port, target, body)
            status = b"404" if target.startswith("/") else b"400"
            assert answer.startswith(b"HTTP/1.1 " + status), (target, answer[:200])
        targets = [target for target in targets if target.startswith("/")]
        assert other.heard == []
        for odd in (
            b'{"method":"\xff"}',
            b'{"\xff":1}',
            b'{"params":{"\xff":1},"method":"x","id":1}',
            b"\xff",
        ):
            assert (await sent(at.port, "/mcp", odd)).startswith(b"HTTP/1.1 400")
        assert [heard.split()[1].decode() for heard in holder.heard] == targets
        for heard in holder.heard:
            assert f"host: 127.0.0.1:{holder.port}".encode() in heard.lower()
            assert heard.lower().count(b"authorization: ") == 1
            assert TOKEN.encode() in heard
        tasks.cancel_scope.cancel()


async def test_at_the_endpoint_for_peers_what_is_given_out_is_sealed_and_nothing_else_is_taken(tmp_path):
    async with AsyncExitStack() as stack:
        counted = tmp_path / "counted"
        made = [
            await stack.enter_async_context(replica(tmp_path / name, counted, names=("old", "new", "tasks")))
            for name in "ab"
        ]
        a, b = (each.origin for each in made)
        client = Client()
        stack.push_async_callback(client.close)
        for server in ("old", "new"):
            path, call = f"/mcp/peers/{server}", {"name": "ask", "arguments": {"id": server}}
            asked = await client.ask(a, "tools/call", path, **call)
            state = asked["requestState"]
            assert state.startswith("mcpx-at-")
            back = {"inputResponses": dict.fromkeys(asked["inputRequests"], YES)}
            inner = state.split(".", 3)[3]
            for wrong in (inner, state + "x", "y"):
                refused = await client.ask(b, "tools/call", path, **call, **back, requestState=wrong)
                assert refused["data"]["mcpx"]["outcome"] == "not_sent"
            done = await client.ask(b, "tools/call", path, **call, **back, requestState=state)
            assert "accept" in text_of(done) or '"ok":true' in text_of(done)
        path = "/mcp/peers/tasks"
        task = await client.ask(a, "tools/call", path, name="start", arguments={"task_id": "t-1"})
        assert task["taskId"].startswith("mcpx-at-t")
        assert (await client.ask(b, "tasks/get", path, taskId=task["taskId"]))["taskId"] == task["taskId"]
        assert counted_in(counted) == ["new", "old"]


async def test_a_state_is_of_its_endpoint_and_its_call(tmp_path):
    async with AsyncExitStack() as stack:
        counted = tmp_path / "counted"
        at = await stack.enter_async_context(replica(tmp_path, counted, names=("old", "new")))
        client = Client()
        stack.push_async_callback(client.close)
        asked = await client.exec(at.origin, "old", "ask", {"id": "x"})
        back = {
            "inputResponses": dict.fromkeys(asked["inputRequests"], YES),
            "requestState": asked["requestState"],
        }
        for server, tool, outcome in (("old", "work", "not_sent"), ("new", "ask", "unknown")):
            path = f"/mcp/peers/{server}"
            failed = await client.ask(at.origin, "tools/call", path, name=tool, arguments={"id": "y"}, **back)
            assert failed["data"]["mcpx"]["outcome"] == outcome, server
        assert counted_in(counted) == []

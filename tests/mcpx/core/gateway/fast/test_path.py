"""The fast path against the SDK's server: the same requests, the same answers, in both eras."""

from __future__ import annotations

import gc
import json
import os
import weakref
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from mcpx.core.config import parse
from mcpx.core.events.stats import MENU
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.eras import EraServer
from mcpx.core.gateway.fast.path import FastPath
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.parts import open_hub
from tests.forking.client import command

VERSION = "io.modelcontextprotocol/protocolVersion"
INFO = "io.modelcontextprotocol/clientInfo"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CALLS = [
    ("exec", {"server_name": "tools", "tool_name": "list_orders", "arguments": {"limit": 3}}),
    ("exec", {"server_name": "tools", "tool_name": "list_orders", "arguments": '{"limit": 3}'}),
    ("exec", {"server_name": "tools", "tool_name": "list_orders"}),
    ("exec", {"server_name": "tools", "tool_name": "list_orders", "arguments": None}),
    ("exec", {"server_name": "tools", "tool_name": "draw_chart", "arguments": {}}),
    ("exec", {"server_name": "tools", "tool_name": "play_tone", "arguments": {}}),
    ("exec", {"server_name": "tools", "tool_name": "fail", "arguments": {"message": "on purpose"}}),
    ("exec", {"server_name": "tools", "tool_name": "get_order", "arguments": {"id": "x"}}),
    ("exec", {"server_name": "tools", "tool_name": "get_order", "arguments": [1]}),
    ("exec", {"server_name": "tools", "tool_name": "get_order", "arguments": "not json"}),
    ("exec", {"server_name": "tools", "tool_name": "nothing"}),
    ("exec", {"server_name": "nobody", "tool_name": "nothing"}),
    ("exec", {"server_name": "tools"}),
    ("exec", {"server_name": 3, "tool_name": "x"}),
    ("exec", {}),
    ("exec", {"server_name": "tools", "tool_name": "tools.list_orders", "arguments": {"limit": 3}}),
    ("exec", {"tool_name": "list_orders", "arguments": {"limit": 3}}),
    ("exec", {"tool_name": "nothing"}),
    ("exec", {"server_name": "list_orders", "arguments": {"limit": 3}}),
    ("exec", {"server_name": "tools", "tool_name": "list_orders", "limit": 3}),
    ("exec", {"server_name": "tools", "tool_name": "list_orders", "arguments": {}, "uri": "x"}),
    ("exec", {"server_name": "tools", "tool_name": "list_orders", "arguments": {"limit": "3"}}),
    ("exec", {"server_name": "tools", "tool_name": "list_orders", "arguments": {}, "max_tokens": -1}),
    ("exec", {"server_name": "tools", "tool_name": "list_orders", "arguments": {}, "select": 3}),
    ("inspect", {"server_name": "tools"}),
    ("inspect", {}),
    ("inspect", {"query": "orders"}),
    ("inspect", {"server_name": "tools", "query": "orders"}),
    ("inspect", {"server_name": "tools", "tool_name": ["list_orders", "get_order", "nothing"]}),
    ("inspect", {"server_name": "tools", "tool_name": 3}),
    ("resources", {"server_name": "knowledge", "uri": "file:///etc/passwd"}),
    ("resources", {"server_name": "knowledge"}),
    ("resources", {}),
    ("resources", {"uri": "file:///nowhere"}),
    ("else", {}),
]


def config_of(*names):
    commands = {name: command("-m", f"mcpx.demo.{name}") for name in names}
    servers = {name: {"command": start, "args": args} for name, (start, *args) in commands.items()}
    return parse(json.dumps({"mcpServers": servers}), where="test")


class RawClient:
    """Lines to a served connection, and the answers by id."""

    def __init__(self, reads, writes):
        self.channel = Channel(reads, writes)
        self.channel.on_data = self._feed
        self.channel.start_reading()
        self._rest = b""
        self._next = 0
        self._news = anyio.Event()
        self.answers, self.notifications = {}, []

    def _feed(self, data):
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "method" in message:
                self.notifications.append(message)
            else:
                self.answers[message["id"]] = message
        self._news.set()

    async def ask(self, method, params, request_id=None):
        self._next += 1
        number = self._next if request_id is None else request_id
        line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.channel.write(json.dumps(line).encode() + b"\n")
        while number not in self.answers:
            self._news = anyio.Event()
            await self._news.wait()
        return self.answers.pop(number)

    def tell(self, method, params=None):
        self.channel.write(
            json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}}).encode() + b"\n"
        )


@asynccontextmanager
async def served(hub, *, fast, limit=1 << 20):
    """A raw client of one connection, with the fast path or without."""
    fds = [*os.pipe(), *os.pipe()]
    for fd in fds:
        os.set_blocking(fd, False)
    channel = Channel(fds[0], fds[3])
    wire = WireDispatcher(channel, limit=limit, on_malformed=lambda *_told: None)
    server = GatewayServer(hub, ClientSessions(hub))
    connection = EraServer(server, wire)
    if fast:
        wire.receiver.fast = FastPath(server, connection).take
    client = RawClient(fds[2], fds[1])
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run)
            yield client
            wire.end()
    finally:
        channel.close()
        client.channel.close()
        for fd in fds:
            os.close(fd)


async def shake_hands(client, name):
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": name, "version": "1"},
    }
    await client.ask("initialize", params)
    client.tell("notifications/initialized")


def envelope(name):
    return {VERSION: "2026-07-28", INFO: {"name": name, "version": "1"}, CAPABILITIES: {}}


def counted_calls(hub):
    """The numbers of the meter for each tool that was called."""
    rows = sorted(hub.meter.since_start().to_dict()["tools"], key=lambda row: (row["server"], row["tool"]))
    return [row[key] for row in rows if row["calls"] for key in ("calls", "direct", "spent")]


async def answers(hub, *, fast, modern, name):
    async with served(hub, fast=fast) as client:
        if modern:
            await client.ask("tools/list", {"_meta": envelope(name)})
        else:
            await shake_hands(client, name)
        found = []
        for tool, arguments in CALLS:
            params = {"name": tool, "arguments": arguments}
            if modern:
                params["_meta"] = envelope(name)
            found.append(await client.ask("tools/call", params))
        return [{key: value for key, value in answer.items() if key != "id"} for answer in found]


@pytest.mark.anyio
@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
@pytest.mark.parametrize("name", ["somebody", "claude-code"])
async def test_both_paths_give_the_same_answers(modern, name):
    with anyio.fail_after(50):
        async with open_hub(config_of("tools", "knowledge")) as hub:
            assert await hub.settled(50)
            slow = await answers(hub, fast=False, modern=modern, name=name)
            calls_before = hub.upstreams["tools"].counters.calls
            counted = [2 * number for number in counted_calls(hub)]
            quick = await answers(hub, fast=True, modern=modern, name=name)
            assert hub.upstreams["tools"].counters.calls - calls_before == calls_before
            assert counted_calls(hub) == counted
            assert list(hub.meter.since_start().clients) == [name]
            assert (MENU in hub.meter.since_start().tools["tools"]) is modern
    for (tool, arguments), one, other in zip(CALLS, slow, quick, strict=True):
        assert other == one, f"{tool} {arguments}"


EXACT = {"server_name": "tools", "tool_name": "list_orders", "arguments": {"limit": 3}}


@pytest.mark.anyio
async def test_nothing_is_kept_of_a_client_that_has_called_and_left():
    with anyio.fail_after(50):
        async with open_hub(config_of("tools")) as hub:
            assert await hub.settled(50)
            async with served(hub, fast=True) as client:
                await shake_hands(client, "somebody")
                assert "result" in await client.ask("tools/call", {"name": "exec", "arguments": EXACT})
                paths = [each for each in gc.get_objects() if type(each) is FastPath]
                left = [weakref.ref(path) for path in paths]
                del paths
            assert left
            await anyio.lowlevel.checkpoint()
            gc.collect()
            assert [path() for path in left] == [None] * len(left)


SLIPS = [
    {"tool_name": "tools.list_orders"},
    {"tool_name": "mcp__tools__list_orders"},
    {"server_name": None},
    {"server_name": None, "tool_name": "tools/list_orders"},
    {"server_name": "list_orders", "tool_name": None},
    {"server_name": "list_orders", "tool_name": "tools"},
    {"arguments": None, "limit": 3},
    {"arguments": {"limit": "3"}},
    {"arguments": '{"limit": "3"}'},
    {"arguments": "", "limit": "3", "tool_name": "list_orders(limit?)"},
    {"toolCallId": "call_1", "sessionId": "s"},
]


@pytest.mark.anyio
async def test_a_call_that_is_nearly_right_is_answered_as_the_right_one_with_the_fast_path_and_without():
    with anyio.fail_after(50):
        async with open_hub(config_of("tools", "knowledge")) as hub:
            assert await hub.settled(50)
            for fast in (True, False):
                async with served(hub, fast=fast) as client:
                    await shake_hands(client, "somebody")
                    right = await client.ask("tools/call", {"name": "exec", "arguments": EXACT})
                    assert right["result"]["isError"] is False
                    for slip in SLIPS:
                        given = {name: value for name, value in (EXACT | slip).items() if value is not None}
                        answer = await client.ask("tools/call", {"name": "exec", "arguments": given})
                        assert answer["result"] == right["result"], slip


@pytest.mark.anyio
async def test_progress_and_cancellation_take_the_fast_path_too():
    with anyio.fail_after(50):
        async with (
            open_hub(config_of("tools")) as hub,
            served(hub, fast=True) as client,
        ):
            assert await hub.settled(50)
            await shake_hands(client, "somebody")
            slow = {"server_name": "tools", "tool_name": "slow", "arguments": {"seconds": 0.3}}
            await client.ask(
                "tools/call", {"name": "exec", "arguments": slow, "_meta": {"progressToken": "p"}}
            )
            steps = [n["params"] for n in client.notifications if n["method"] == "notifications/progress"]
            assert [step["progressToken"] for step in steps] == ["p"] * len(steps)
            assert [step["progress"] for step in steps] == sorted(step["progress"] for step in steps)
            assert steps
            counters = hub.upstreams["tools"].counters
            slow["arguments"]["seconds"] = 600
            params = {"name": "exec", "arguments": slow}
            client.channel.write(
                json.dumps({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": params}).encode()
                + b"\n"
            )
            while not counters.in_flight:
                await anyio.lowlevel.checkpoint()
            client.tell("notifications/cancelled", {"requestId": 99})
            while counters.in_flight:
                await anyio.lowlevel.checkpoint()
            await client.ask("ping", {})
            assert 99 not in client.answers
            assert counters.errors["cancelled"] == 1


LARGE = "mcpx.core.gateway.fast.path.LARGE_BYTES"


@pytest.mark.anyio
@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
async def test_calls_that_a_worker_takes_apart_have_the_same_answers(modern, monkeypatch):
    with anyio.fail_after(50):
        async with open_hub(config_of("tools", "knowledge")) as hub:
            assert await hub.settled(50)
            slow = await answers(hub, fast=False, modern=modern, name="somebody")
            monkeypatch.setattr(LARGE, 0)
            apart, take = [], FastPath._take_call
            monkeypatch.setattr(FastPath, "_take_call", lambda *given: apart.append(given) or take(*given))
            quick = await answers(hub, fast=True, modern=modern, name="somebody")
            assert len(apart) == len(CALLS)
    for (tool, arguments), one, other in zip(CALLS, slow, quick, strict=True):
        assert other == one, f"{tool} {arguments}"


@pytest.mark.anyio
async def test_large_arguments_reach_their_tool_and_broken_ones_are_refused():
    text = "[[1]]," * 600_000
    with anyio.fail_after(50):
        async with open_hub(config_of("tools")) as hub, served(hub, fast=True, limit=8 << 20) as client:
            assert await hub.settled(50)
            await shake_hands(client, "somebody")
            call = {"server_name": "tools", "tool_name": "fail", "arguments": {"message": text}}
            answer = await client.ask("tools/call", {"name": "exec", "arguments": call})
            assert "[[1]],[[1]]" in answer["result"]["content"][0]["text"]
            outside = b'{"name":"exec","arguments":{"server_name":"tools","tool_name":"fail","arguments":{}}}'
            line = b'{"jsonrpc":"2.0","id":70,"method":"tools/call","params":{"a":[%b1]},"b":%b}\n'
            client.channel.write(line % (text.encode(), outside))
            while 70 not in client.answers:
                await anyio.lowlevel.checkpoint()
            assert client.answers[70]["error"]["message"] == "The parameters cannot be read"
            assert hub.upstreams["tools"].counters.calls == 1


@pytest.mark.anyio
async def test_a_call_is_cancelled_while_a_worker_takes_it_apart(monkeypatch):
    monkeypatch.setattr(LARGE, 0)
    with anyio.fail_after(50):
        async with open_hub(config_of("tools")) as hub, served(hub, fast=True) as client:
            assert await hub.settled(50)
            await shake_hands(client, "somebody")
            line = {"jsonrpc": "2.0", "id": 99, "method": "tools/call"}
            line["params"] = {"name": "exec", "arguments": EXACT}
            client.channel.write(json.dumps(line).encode() + b"\n")
            client.tell("notifications/cancelled", {"requestId": 99})
            await client.ask("tools/call", {"name": "exec", "arguments": EXACT})
            assert 99 not in client.answers
            assert hub.upstreams["tools"].counters.calls == 1

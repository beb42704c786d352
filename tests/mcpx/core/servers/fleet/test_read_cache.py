"""`cache`: which calls a kept result answers, for whom, and what makes it forgotten."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from mcpx.core.calls.results.parts import selectable
from mcpx.core.catalog.snapshot import State
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.operations import ControlRequest, perform
from mcpx.core.servers.fleet import read_cache
from mcpx.core.system.endpoint import Endpoint
from tests.mcpx.core.gateway.native.test_tools import client_of
from tests.mcpx.core.gateway.peer.peers import open_peers
from tests.mcpx.core.gateway.transparent.talking import on_stream
from tests.mcpx.core.gateway.transparent.test_equality import handshake
from tests.mcpx.line import Line
from tests.mcpx.scripted import config_of, entry, open_watched, soon

pytestmark = pytest.mark.anyio
READ = {"readOnlyHint": True}
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}, "n": {}, "hold": {}}}
TOOLS = dict.fromkeys(("get_a", "get_b", "bad", "broken", "curious", "slow", "free"), READ) | {"put": {}}
KEPT = {"free": 0, "get_*": 300, "[bcsp]*": 300}
ANSWERS = {
    "tools/call bad": {"content": [{"type": "text", "text": "no"}], "isError": True},
    "tools/call broken": {"content": "none"},
    "tools/call curious": [{"ask": {"method": "roots/list"}}, {"say": "asked"}],
    "tools/call slow": [{"hold": "slow"}, {"say": "slow"}],
    "tools/call free": [{"release": "slow"}, {"say": "free"}],
    "tools/call get_b": {
        "content": [{"type": "text", "text": "b"}],
        "_meta": {"own": 1, "big": 123456789012345678901},
    },
}


class Desk:
    """A server with `cache`, and how often it was called."""

    def __init__(self, ears, tools, **settings):
        self.ears, self.tools = ears, tools
        self.settings = {"cache": KEPT} | settings
        self.offer(TOOLS)

    def offer(self, tools, **more):
        listed = [
            {"name": name, "inputSchema": SCHEMA, "annotations": hints} | more
            for name, hints in tools.items()
        ]
        self.tools.write_text(json.dumps(listed))

    def config(self, cache_bytes=1 << 20, settings=None, **top):
        return config_of({"s": self.made(**(settings or {}))}, cache_bytes=cache_bytes, **top)

    def made(self, **settings):
        own = self.settings | settings
        return entry(self.ears, settings=own, tools=str(self.tools), answers=ANSWERS)

    def calls(self):
        return len(self.ears.of("request", method="tools/call"))

    @asynccontextmanager
    async def client(self, watch, choice=None, client=None, **more):
        async with client_of(watch, choice, client, **more) as line:

            async def run(tool, arguments=None, **more):
                """The result, and whether the server was asked."""
                before = self.calls()
                given = {"server_name": "s", "tool_name": tool, "arguments": arguments or {}, **more}
                result = await line.call("exec", given)
                return result, self.calls() - before

            line.run = run
            await line.names()
            yield line


@pytest.fixture
def desk(ears, tmp_path):
    return Desk(ears, tmp_path / "tools")


def age_of(result):
    return result.get("_meta", {}).get("mcpx/cached")


@pytest.mark.parametrize("modern", [False, True])
async def test_the_same_call_is_answered_by_what_was_kept_and_says_so(desk, modern):
    config = desk.config(expose="both")
    async with open_watched(config) as watch, desk.client(watch, "both", modern=modern) as line:
        given = {"text": "x", "n": [1, {"a": 1, "b": 2}]}
        first, asked = await line.run("get_a", given)
        assert (asked, age_of(first)) == (1, None)
        for line.slow in (False, True):
            again, asked = await line.run("get_a", {"n": [1, {"b": 2, "a": 1}], "text": "x"})
            assert (asked, age_of(again)) == (0, {"age_s": 0})
            assert again["content"] == first["content"]
            native, calls = await line.call("s__get_a", given), desk.calls()
            assert (age_of(native), calls) == ({"age_s": 0}, 1)
        assert (await line.run("get_a", {"text": "y"}))[1] == 1
        line.slow = False
        first, _ = await line.run("get_b")
        again, asked = await line.run("get_b")
        assert asked == 0
        assert again["_meta"]["own"] == first["_meta"]["own"] == 1
        counted = watch.hub.meter.since_start().of_server("s")
        assert (counted.calls, counted.ok, counted.cached) == (8, 8, 5)


async def test_what_is_no_plain_result_of_a_read_only_tool_is_never_kept(desk):
    async with open_watched(desk.config()) as watch, desk.client(watch) as line:
        for tool in ("bad", "broken", "put"):
            for _ in range(2):
                result, asked = await line.run(tool)
                assert (asked, age_of(result)) == (1, None), tool
        await watch.hub.reload(desk.config(settings={"trust_annotations": False}))
        assert [(await line.run("get_a"))[1] for _ in range(2)] == [1, 1]


async def test_a_call_can_ask_for_a_fresh_result_which_is_kept_in_its_turn(desk):
    config = desk.config(expose="both")
    async with open_watched(config) as watch, desk.client(watch, "both") as line:
        listed = {tool["name"]: tool for tool in (await line.ask("tools/list", {}))["tools"]}
        assert listed["exec"]["inputSchema"]["properties"]["fresh"]["type"] == "boolean"
        await line.run("get_a")
        for line.slow in (False, True):
            assert (await line.run("get_a", fresh=True))[1] == 1
            assert (await line.run("get_a", fresh=False))[1] == 0
            assert (await line.run("get_a", fresh="true"))[1] == 1
            wrong, asked = await line.run("get_a", fresh="perhaps")
            assert (asked, wrong["isError"]) == (0, True)
            assert "fresh must be true or false" in wrong["content"][0]["text"]
            before = desk.calls()
            await line.call("s__get_a", _meta={"mcpx/fresh": True})
            assert desk.calls() == before + 1
        assert (await line.run("get_a"))[1] == 0
        await watch.hub.reload(desk.config(settings={"cache": {}}, expose="both"))
        listed = {tool["name"]: tool for tool in (await line.ask("tools/list", {}))["tools"]}
        assert "fresh" not in listed["exec"]["inputSchema"]["properties"]
        for line.slow in (False, True):  # it is the tool's own now, and this tool has none
            refused, asked = await line.run("get_a", fresh=True)
            assert (asked, refused["isError"]) == (0, True)


async def test_it_is_forgotten_when_something_may_have_changed(desk):
    async with open_watched(desk.config()) as watch, desk.client(watch) as line:
        s = lambda: watch.hub.upstreams["s"]  # noqa: E731

        async def kept():
            return (await line.run("get_a"))[1] == 0

        assert [await kept(), await kept()] == [False, True]
        await line.run("put")
        assert [await kept(), await kept()] == [False, True]
        await watch.hub.restart("s")
        await watch.becomes(State.READY)
        assert [await kept(), await kept()] == [False, True]
        os.kill(s().pid, 9)
        await watch.leaves(State.READY)
        await watch.becomes(State.READY)
        assert [await kept(), await kept()] == [False, True]
        await watch.hub.reload(desk.config(startup_wait=4))
        assert [await kept(), await kept()] == [False, True]
        desk.offer(TOOLS, description="It says something else now.")
        s().main.relist()
        await soon(lambda: s().catalogue.tool("get_a").description)
        assert [await kept(), await kept()] == [False, True]
        watch.hub.fleet._account_changed("s")  # it has none: nothing to forget
        assert await kept()


@pytest.mark.parametrize(("between", "kept"), [("put", False), ("get_a", True)])
async def test_a_result_that_was_under_way_while_something_was_written_is_not_kept(desk, between, kept):
    async with open_watched(desk.config()) as watch:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.text, "slow")
            await desk.ears.hear("request", method="tools/call")
            await watch.text(between)
            await watch.text("free")
        before = desk.calls()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.text, "slow")
            if not kept:
                await desk.ears.hear("request", method="tools/call", count=before + 1)
                await watch.text("free")
        assert desk.calls() == (before if kept else before + 2)


async def test_a_result_for_which_the_server_has_asked_its_client_is_not_kept(desk):
    async with open_watched(desk.config()) as watch, desk.client(watch) as line:
        for _ in range(2):  # the client has no roots, and the server hears that
            assert (await line.run("curious"))[1] == 1


async def test_nothing_of_another_session_profile_or_client_with_other_abilities_answers(desk):
    config = desk.config(settings={"sessions": "per_client"}, profiles={"p": {}})
    async with open_watched(config) as watch:
        async with desk.client(watch) as one, desk.client(watch) as two:
            assert [(await line.run("get_a"))[1] for line in (one, two, one, two)] == [1, 1, 0, 0]
            await two.run("put")  # it may have changed what the first is shown
            assert [(await line.run("get_a"))[1] for line in (one, two, one, two)] == [1, 1, 0, 0]
        await watch.hub.reload(desk.config(profiles={"p": {}}))
        async with desk.client(watch) as one, desk.client(watch) as two:
            assert [(await line.run("get_a"))[1] for line in (one, two)] == [1, 0]
            more = {"text": "m"}
            given = {"server_name": "s", "tool_name": "get_a", "arguments": more}
            metas = (
                {},
                {"claudecode/toolUseId": "1"},
                {"claudecode/toolUseId": "2"},
                {"who": "me"},
                {"who": "me"},
            )
            two.slow = True
            for line in (one, two):
                await line.call("exec", {**given, "fresh": True})
                before = [desk.calls()]
                for meta in metas:
                    await line.call("exec", given, _meta=meta)
                    before.append(desk.calls())
                asked = [after - first for first, after in pairwise(before)]
                assert asked == ([0, 0, 0, 1, 0] if line is one else [0, 0, 0, 0, 0])
            endpoints = Endpoints(watch.hub, one.clients)
            async with Line(watch.hub).connected(endpoints.gateway(Endpoint(profile="p"))) as narrowed:
                await narrowed.initialize()
                before = desk.calls()
                await narrowed.ask("tools/call", {"name": "exec", "arguments": given})
                assert desk.calls() == before + 1
            async with Line(watch.hub).connected(one.server) as able:
                await able.initialize(capabilities={"sampling": {}})
                await able.ask("tools/call", {"name": "exec", "arguments": given})
                assert desk.calls() == before + 2


@pytest.mark.parametrize("fit", [True, False])
async def test_it_is_bounded_in_bytes_and_in_time(desk, monkeypatch, fit):
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: 0.0, time=lambda: now[0])
    monkeypatch.setattr(read_cache, "time", clock)
    room = (1 << 20) if fit else 4096  # for five small results
    async with open_watched(desk.config(room)) as watch, desk.client(watch) as line:
        texts = [str(number) for number in range(10)]
        assert [(await line.run("get_a", {"text": text}))[1] for text in texts] == [1] * 10
        asked = [(await line.run("get_a", {"text": text}))[1] for text in reversed(texts)]
        assert asked == [0] * 10 if fit else (asked[0] == 0 and asked[-1] == 1)
        cache = watch.hub.fleet._cache
        assert 0 < cache._size <= room
        assert cache._size == sum(kept.size for kept in cache._kept.values())
        for _ in range(2):
            large, asked = await line.run("get_a", {"text": "x" * 2000})
            assert asked == (age_of(large) is None)
        assert (asked == 0) is fit
        await line.run("get_a", {"text": "9"})
        now[0] = 299.0
        again, asked = await line.run("get_a", {"text": "9"})
        assert (asked, age_of(again)) == (0, {"age_s": 299})
        now[0] = 300.0
        assert (await line.run("get_a", {"text": "9"}))[1] == 1


async def test_the_transparent_endpoint_is_never_answered_and_what_it_writes_counts(desk):
    async with (
        open_watched(desk.config()) as watch,
        desk.client(watch) as line,
        on_stream(watch.hub, "s") as talk,
    ):
        await handshake(talk)
        await line.run("get_a")

        async def passed(tool):
            before = desk.calls()
            await talk.ask("tools/call", json.dumps({"name": tool, "arguments": {}}))
            return desk.calls() - before

        assert [await passed("get_a"), await passed("get_a")] == [1, 1]
        assert (await line.run("get_a"))[1] == 0
        assert await passed("put") == 1
        assert (await line.run("get_a"))[1] == 1


def test_a_part_of_a_kept_result_says_that_it_was_kept():
    said = b'{"_meta":{"own":1,%b"big":2},"content":[{"type":"text","text":"{}"}]}'
    metas = [
        selectable(msgspec.Raw(said % mark), server="s").meta for mark in (b"", b'"mcpx/cached":{"age_s":3},')
    ]
    assert metas == [None, {"mcpx/cached": {"age_s": 3}}]


async def test_the_command_line_is_answered_too_and_can_ask_for_a_fresh_result(desk):
    async with open_watched(desk.config()) as watch:
        request = ControlRequest("exec", server="s", tool="get_a")
        asked = [False, False, True, False]
        shown = [(await perform(watch.hub, replace(request, fresh=fresh)))["shaped"] for fresh in asked]
        assert [age_of(each) is not None for each in shown] == [False, True, False, True]
        assert desk.calls() == 2


@pytest.mark.parametrize("way", [("fast", "handshake"), ("slow", "modern"), ("http", "modern")])
async def test_a_peer_is_answered_too_and_can_ask_for_a_fresh_result(desk, way):
    async with open_peers({"s": desk.made()}) as peers:
        peer = await peers.open(*way)

        async def ask(**meta):
            before = desk.calls()
            params = {"name": "get_a", "arguments": {}} | ({"_meta": meta} if meta else {})
            answer = await peer.answer("tools/call", params)
            assert answer.error is None
            return desk.calls() - before, b"mcpx/cached" in bytes(answer.result)

        assert [await ask(), await ask()] == [(1, False), (0, True)]
        assert await ask(**{"mcpx/fresh": True}) == (1, False)


async def test_the_audit_log_says_what_was_answered_without_the_server(desk, tmp_path):
    async with open_watched(desk.config(), state=tmp_path / "state") as watch:
        for _ in range(2):
            await watch.text("get_a")
    lines = [
        json.loads(line)
        for path in (tmp_path / "state" / "audit").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert [line["outcome"] for line in lines if line.get("name") == "get_a"] == ["ok", "cached"]


async def test_without_the_setting_nothing_of_it_is_there(ears):
    async with open_watched(config_of({"s": entry(ears)})) as watch:
        server = watch.hub.upstreams["s"]
        assert server.reads is watch.hub.fleet._cache is None
        assert server.submit == server.main.submit

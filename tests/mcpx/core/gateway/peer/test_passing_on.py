"""What is more than an answer passes the peer endpoint, too: questions, messages, changes, cancellation."""

from __future__ import annotations

import json
import os
from contextlib import AsyncExitStack

import anyio
import pytest

from mcpx.errors import Code
from tests.mcpx.core.gateway.native.connecting import entry as era_entry
from tests.mcpx.core.gateway.native.listeners import open_listener
from tests.mcpx.core.gateway.peer.peers import open_peer_gateway, open_peers
from tests.mcpx.core.gateway.test_tasks import TAKES, TASKS
from tests.mcpx.core.gateway.test_tasks import entry as task_entry
from tests.mcpx.core.servers.relay.answering import (
    EVERY,
    FORM,
    AnsweringClient,
    asking_server,
    said,
    set_level,
)
from tests.mcpx.scripted import PATIENCE_S, entry, soon
from tests.mcpx.serving import ENVELOPE

pytestmark = pytest.mark.anyio
MODES = ("handshake", "modern")
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["stdio-handshake", "stdio-modern"])
async def test_questions_progress_and_messages(kind, mode):
    ann = AnsweringClient("ann")
    options = ann.options(**({"level": "info"} if mode == "modern" else {}))
    steps = []

    async def step(progress, total, message):
        steps.append((progress, total, message))

    async with (
        asking_server(kind) as server,
        open_peer_gateway("s/x", {"s/x": server}) as gateway,
        gateway.client(mode, **options) as client,
    ):
        if mode == "handshake":
            await set_level(client, "info")
        for _ in range(2):  # the first call of a modern peer is the SDK's, the second one is not
            asked = await client.call_tool("ask", {"questions": list(EVERY)})
            assert said(asked) == ann.answers()
        texts = {each["message"] for each in ann.asked if "message" in each}
        assert texts == {"Which?", "Go\n\nThe link opens example.com."}  # the other MCPX says who asks
        called = await client.call_tool("steps", {"count": 3}, progress_callback=step)
        assert said(called) == "stepped"
        assert steps == [(n + 1, 3, f"step {n + 1}") for n in range(3)]
        await client.call_tool("say", {"level": "debug", "data": "not wanted"})
        await client.call_tool("say", {"level": "warning", "data": [1, None], "logger": "db"})
        await client.call_tool("say", {"level": "info", "data": "plain"})
        told = await ann.wait_for_logs(2)
        assert told == [
            {"level": "warning", "logger": "db", "data": [1, None]},
            {"level": "info", "data": "plain"},
        ]
        prompt = await client.get_prompt("ask", {"questions": json.dumps([FORM])})
        assert json.loads(prompt.messages[0].content.text)["said"] == [ann.answers()[1]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("era", ["handshake", "both"])
async def test_updates_and_changes_of_lists(tmp_path, ears, era, mode):
    servers = {"a": {**era_entry(era, ears, tmp_path), "native": False}}  # which is about clients
    uri = "note:///full"
    async with open_peer_gateway("a", servers) as gateway:
        async with open_listener(gateway, mode, uri, lists=True) as heard:
            await ears.hear("subscribed", uris=[uri])
            await gateway.watch.text("touch", {"uri": uri, "text": "new"}, server="a")
            await heard.hear(uri)
            read = await heard.client.read_resource(uri)
            assert (read.contents[0].uri, read.contents[0].text) == (uri, "new")
            for kind in ("resources", "prompts", "tools"):
                await gateway.watch.text("grow", {"kind": kind, "name": f"new-{kind}"}, server="a")
                await heard.hear(kind)
            assert "new-tools" in {tool.name for tool in (await heard.client.list_tools()).tools}
            assert "new-prompts" in {each.name for each in (await heard.client.list_prompts()).prompts}
        await ears.hear("unsubscribed", uris=[uri])


@pytest.mark.parametrize("era", MODES)
@pytest.mark.parametrize("way", ["fast", "slow"])
async def test_a_cancelled_call_is_cancelled_at_the_server_and_so_are_those_of_one_who_leaves(ears, way, era):
    async with open_peers({"s": entry(ears)}) as peers:
        peer = await peers.open(way, era)
        await peer.answer("tools/list", {})
        more = {"_meta": ENVELOPE} if era == "modern" else {}
        for number in (1, 2):
            request = {"jsonrpc": "2.0", "id": 70 + number, "method": "tools/call"}
            request["params"] = {"name": "hang", "arguments": {}, **more}
            os.write(peer._out, json.dumps(request).encode() + b"\n")
            await ears.hear("call", tool="hang", count=number)
            if number == 1:
                peer.tell("notifications/cancelled", {"requestId": 71})
                await ears.hear("cancelled")
        await peers._stack.aclose()
        await ears.hear("cancelled", count=2)


async def test_a_death_is_unknown_and_nothing_is_run_again(ears):
    async with open_peers({"s": entry(ears)}) as peers:
        for endpoint in (("fast", "handshake"), ("slow", "modern"), ("http", "modern")):
            peer = await peers.open(*endpoint)
            error = (await peer.answer("tools/call", {"name": "die", "arguments": {}})).error
            told = error["data"]["mcpx"]
            assert (told["code"], told["outcome"], told["tool"]) == (Code.SERVER_DIED, "unknown", "die")
            assert (await peer.answer("tools/call", {"name": "count", "arguments": {}})).error is None
        assert len(ears.of("call", tool="die")) == 3


async def test_a_person_is_asked_before_a_call(ears):
    servers = {"s": entry(ears, settings={"tools": {"ask": ["count"]}})}
    async with open_peers(servers) as peers:
        peer = await peers.open("fast", "modern")
        await peer.answer("tools/list", {})
        call = {"name": "count", "arguments": {}}
        refused = (await peer.answer("tools/call", call)).error["data"]["mcpx"]
        assert (refused["code"], refused["outcome"]) == ("not_approved", "not_sent")
        ENVELOPE[CAPABILITIES] = {"elicitation": {"form": {}}}
        try:
            asked = json.loads(bytes((await peer.answer("tools/call", call)).result))
            assert asked["resultType"] == "input_required"
            ((key, _),) = asked["inputRequests"].items()
            answers = {key: {"action": "accept", "content": {"answer": "yes"}}}
            schema = asked["inputRequests"][key]["params"]["requestedSchema"]
            (field, given), *_ = schema["properties"].items()
            answers[key]["content"] = {
                field: (given.get("enum") or [each["const"] for each in given["oneOf"]])[0]
            }
            again = {**call, "inputResponses": answers, "requestState": asked["requestState"]}
            assert (await peer.answer("tools/call", again)).error is None
        finally:
            ENVELOPE[CAPABILITIES] = {}
        assert len(ears.of("call", tool="count")) == 1


async def test_tasks():
    async with open_peers({"s": task_entry()}) as peers:
        ENVELOPE[CAPABILITIES] = TAKES
        try:
            for way in ("fast", "slow", "http"):
                peer = await peers.open(way, "modern")
                greeted = json.loads(bytes((await peer.answer("server/discover", {})).result))
                assert TASKS in greeted["capabilities"]["extensions"]
                call = {"name": "start", "arguments": {}}
                task = json.loads(bytes((await peer.answer("tools/call", call)).result))
                assert task["resultType"] == "task"
                got = await peer.answer("tasks/get", {"taskId": task["taskId"]})
                assert json.loads(bytes(got.result))["taskId"] == task["taskId"]
                unknown = (await peer.answer("tasks/get", {"taskId": "none"})).error
                assert "has no task" in unknown["message"]
        finally:
            ENVELOPE[CAPABILITIES] = {}


async def test_servers_come_and_go_while_peers_are_connected(ears):
    from tests.mcpx.scripted import config_of  # noqa: PLC0415

    async with open_peers({"s": entry(ears)}) as peers:
        peer = await peers.open("fast", "handshake")
        call = ("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
        assert (await peer.answer(*call)).error is None
        await peers.hub.reload(config_of({"new": entry()}))
        gone = (await peer.answer(*call)).error
        assert gone["data"]["mcpx"]["code"] == "unknown_server"
        for method in ("tools/list", "resources/list"):
            assert (await peer.answer(method, {})).error["data"]["mcpx"]["code"] == "unknown_server"
        assert (await peers.open("fast", "modern", server="new")) is not None
        await peers.hub.reload(config_of({"s": entry(), "new": entry()}))
        with anyio.fail_after(PATIENCE_S):
            assert (await peer.answer(*call)).error is None


async def test_each_peer_has_its_own_session_where_the_server_gives_them(ears):
    async with open_peers({"s": entry(ears, settings={"sessions": "per_client"})}) as peers:
        async with AsyncExitStack() as stack:
            for era in MODES:
                peer = await peers.open("fast", era)
                await peer.answer("tools/call", {"name": "count", "arguments": {}})
            stack.push_async_callback(peers._stack.aclose)
            private = peers.hub.upstreams["s"].clients.by_client
            assert len(private) == 2
            assert len({each.pid for each in private.values()}) == 2
        await soon(lambda: len(private) == 0)

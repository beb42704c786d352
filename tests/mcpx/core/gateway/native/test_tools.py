"""Tools under their own names: what is listed, how it is called, and what is answered, on both paths."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import asynccontextmanager

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.events.stats import MENU
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.system.endpoint import Endpoint
from supervisors import ChildSpec
from tests.mcpx.core.gateway.frontends.test_kept_results import SERVER as TABLES
from tests.mcpx.line import Line
from tests.mcpx.scripted import config_of, entry, open_watched, soon
from tests.mcpx.serving import ENVELOPE, serving, write_config

pytestmark = pytest.mark.anyio
CHANGED = "notifications/tools/list_changed"
THREE = ["inspect", "exec", "resources"]


@asynccontextmanager
async def client_of(watch, choice=None, client=None, *, modern=False):
    """A client of one hub that has made this choice."""
    clients = watch.__dict__.setdefault("clients", None) or ClientSessions(watch.hub)
    if watch.clients is None:
        watch.clients = clients
        watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
    server = GatewayServer(watch.hub, clients, Endpoint(choice))
    async with Line(watch.hub).connected(server) as line:
        if not modern:
            await line.initialize(client)
        meta = {"_meta": ENVELOPE} if modern else {}

        async def names():
            return [tool["name"] for tool in (await line.ask("tools/list", meta))["tools"]]

        async def call(name, arguments=None, **more):
            return await line.ask("tools/call", {"name": name, "arguments": arguments or {}, **meta, **more})

        line.names, line.call, line.clients, line.server, line.meta = names, call, clients, server, meta
        yield line


def native(server, tools=None):
    names = tools or ["add", "count", "crowd", "die", "die_once_idempotent", "die_once_read_only"]
    names = tools or [*names, "die_read_only", "echo", "fail", "hang", "huge", "nudge", "release"]
    return [f"{server}__{name}" for name in names]


@pytest.mark.parametrize(
    ("setting", "choice", "shown"),
    [
        ("three", None, THREE),
        ("three", "all", native("s")),
        ("three", "both", [*THREE, *native("s")]),
        ("all", None, native("s")),
        ("all", "three", THREE),
        ("both", None, [*THREE, *native("s")]),
        ("both", "three", THREE),
    ],
)
async def test_what_is_shown_by_the_setting_and_the_choice(setting, choice, shown):
    async with open_watched(config_of({"s": entry()}, expose=setting)) as watch:
        for modern in (False, True):
            async with client_of(watch, choice, modern=modern) as line:
                assert await line.names() == shown


async def test_pins_are_shown_beside_the_three_whatever_is_chosen():
    servers = {"a": entry(settings={"pinned": ["echo", "die*y"]}), "b": entry()}
    config = config_of(servers, pinned=["b.count", "nothing.*"])
    pinned = ["a__die_once_read_only", "a__die_read_only", "a__echo", "b__count"]
    async with open_watched(config) as watch:
        async with client_of(watch) as line, client_of(watch, "three") as other:
            assert await line.names() == await other.names() == [*THREE, *pinned]
            assert (await line.call("b__count"))["isError"] is False
        async with client_of(watch, "all") as line:
            assert await line.names() == native("a") + native("b")


async def test_servers_of_their_own_exposure():
    servers = {"a": entry(settings={"expose": "all"}), "b": entry(), "off": {**entry(), "disabled": True}}
    async with open_watched(config_of(servers)) as watch, client_of(watch) as line:
        assert await line.names() == [*THREE, *native("a")]
        listed = (await line.ask("tools/list", {}))["tools"]
        assert "b" in listed[0]["description"]
        assert "Says the text" not in listed[0]["description"].partition("## b")[0]
        assert "a (" not in line.server.instructions
        exec_too = await line.call(
            "exec", {"server_name": "a", "tool_name": "echo", "arguments": {"text": "x"}}
        )
        assert exec_too["content"][0]["text"] == "x"
        del servers["b"]
        await watch.hub.reload(config_of(servers))
        assert await line.names() == native("a")
        assert "server__tool" in line.server.instructions


@pytest.mark.parametrize("modern", [False, True])
async def test_a_call_is_the_same_as_through_exec_on_both_paths(modern):
    config = config_of({"s": entry()}, expose="both")
    async with open_watched(config) as watch, client_of(watch, modern=modern) as line:
        await line.names()
        for tool, arguments in (
            ("echo", {"text": "ä"}),
            ("echo", {"text": '{"a": 1}'}),
            ("echo", {}),
            ("echo", {"text": 5}),
            ("fail", {"text": "no"}),
            ("die", {}),
        ):
            answers = []
            for line.slow in (False, True):
                named = {"server_name": "s", "tool_name": tool, "arguments": arguments}
                for call in (("exec", named), (f"s__{tool}", arguments)):
                    await watch.becomes(State.READY)
                    taken = line.fast
                    answers.append(await line.call(*call))
                    assert line.fast - taken == (not line.slow)
            assert all(answer == answers[0] for answer in answers), tool
            assert "code:" in answers[0]["content"][0]["text"] or answers[0]["isError"] is False


async def test_unknown_names_are_errors_of_the_protocol_with_the_nearest():
    async with open_watched(config_of({"s": entry()}, expose="both")) as watch:
        async with client_of(watch) as line:
            for name, near in (
                ("s__ecko", "s__echo"),
                ("echo", "s__echo"),
                ("s.echo", "s__echo"),
                ("exek", "exec"),
            ):
                error = await failure(line, name)
                assert error["code"] == -32602
                assert f"did you mean {near}" in error["message"]
        async with client_of(watch, "three") as line:
            assert "exec(server_name" in (await failure(line, "s__echo"))["message"]
        async with client_of(watch, "all") as line:
            assert "exec" not in (await failure(line, "s__ecko"))["message"]
            said = await line.call(
                "exec", {"server_name": "s", "tool_name": "echo", "arguments": {"text": "x"}}
            )
            assert said["isError"] is False


async def test_a_change_is_announced_where_the_list_differs_and_only_there(tmp_path):
    """A description of a parameter is in the native list alone; a new tool is in both."""
    tools = tmp_path / "tools"

    def offer(*names, said="old"):
        schema = {"type": "object", "properties": {"a": {"type": "string", "default": said}}}
        tools.write_text(json.dumps([{"name": name, "inputSchema": schema} for name in names]))

    offer("a")
    config = config_of({"s": entry(tools=str(tools)), "other": entry()})
    async with open_watched(config) as watch, client_of(watch) as three, client_of(watch, "all") as both:
        await three.names(), await both.names()
        offer("a", said="new")
        await watch.hub.restart("s")
        await both.hear(CHANGED)
        assert (await both.ask("tools/list", {}))["tools"][-1]["inputSchema"]["properties"]["a"][
            "default"
        ] == "new"
        await soon(lambda: not three.clients._changes)
        await three.names()
        assert CHANGED not in three.notifications
        offer("a", "b", said="new")
        await watch.hub.restart("s")
        await three.hear(CHANGED)
        await both.hear(CHANGED)
        await watch.hub.reload(config_of({"s": entry(tools=str(tools), settings={"expose": "all"})}))
        await three.hear(CHANGED)
        assert await three.names() == ["s__a", "s__b"]


async def test_the_list_is_equal_through_a_crash_and_the_calls_wait_for_the_server(tmp_path):
    here = tmp_path / "here"
    here.touch()
    config = config_of({"s": entry(wants=str(here)), "b": entry()}, expose="both", queue_timeout=15)
    async with open_watched(config) as watch, client_of(watch) as line:
        before = json.dumps(await line.ask("tools/list", {}))
        here.unlink()
        os.kill(watch.hub.upstreams["s"].pid, signal.SIGKILL)
        await watch.becomes(State.WAITING)
        assert json.dumps(await line.ask("tools/list", {})) == before
        here.touch()
        assert (await line.call("s__echo", {"text": "back"}))["content"][0]["text"] == "back"
        assert json.dumps(await line.ask("tools/list", {})) == before
        assert CHANGED not in line.notifications


async def test_a_server_that_has_never_listed(tmp_path):
    config = config_of({"s": entry(wants=str(tmp_path / "never")), "b": entry()}, expose="all")
    async with open_watched(config) as watch, client_of(watch) as line:
        assert await line.names() == native("b")
        answer = await line.call("s__echo", {"text": "x"})
        assert answer["isError"]
        assert "code: server_unavailable, outcome: not_sent" in answer["content"][0]["text"]
        assert (await failure(line, "b__ecko"))["code"] == -32602


@pytest.mark.parametrize("slow", [False, True])
async def test_a_failure_of_a_tool_with_an_output_schema_has_its_code_in_meta(tmp_path, slow):
    """Official clients hold any structured content against the schema, an error's too."""
    tools = tmp_path / "tools"
    listed = [
        {"name": name, "inputSchema": {"type": "object", "required": ["a"]}} for name in ("with", "without")
    ]
    listed[0]["outputSchema"] = {"type": "object"}
    tools.write_text(json.dumps(listed))
    async with open_watched(config_of({"s": entry(tools=str(tools))}, expose="all")) as watch:
        for modern in (False, True):
            async with client_of(watch, modern=modern) as line:
                first, _ = (await line.ask("tools/list", line.meta))["tools"]
                assert first["outputSchema"] == {"type": "object"}
                line.slow = slow
                one, other = await line.call("s__with"), await line.call("s__without")
                assert one["content"][0]["text"].endswith("(code: invalid_arguments, outcome: not_sent)")
                assert "structuredContent" not in one
                assert one["_meta"]["mcpx/error"]["code"] == "invalid_arguments"
                assert other["structuredContent"]["outcome"] == "not_sent"
        async with client_of(watch, client={"name": "claude-code", "version": "2"}) as line:
            first, _ = (await line.ask("tools/list", {}))["tools"]
            assert "outputSchema" not in first
            assert "structuredContent" not in await line.call("s__without")


async def test_arguments_that_are_none_are_refused_as_the_protocol_has_it():
    async with open_watched(config_of({"s": entry()}, expose="all")) as watch, client_of(watch) as line:
        for line.slow in (False, True):
            for arguments in ([1], "text", 5):
                assert await line.ask("tools/call", {"name": "s__count", "arguments": arguments}) is None
                assert line.error["code"] == -32602
            for params in ({}, {"arguments": None}, {"arguments": {}}):
                assert not (await line.ask("tools/call", {"name": "s__count", **params}))["isError"]


async def test_arguments_that_nest_too_deeply_are_refused_with_a_code(tmp_path):
    config = write_config(tmp_path, {"s": entry()}, startup_wait=20, expose="all")
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        await mcpx.request("tools/list")
        deep = "[" * 100_000 + "]" * 100_000
        params = f'{{"name":"s__echo","arguments":{{"text":{deep}}}}}'
        line = f'{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{params}}}\n'
        await mcpx.send_bytes(line.encode())
        answer = (await mcpx.answer(9))["result"]
        assert answer["structuredContent"]["code"] == "invalid_arguments"
        assert answer["structuredContent"]["tool"] == "echo"


async def test_the_meter_counts_native_calls_and_the_whole_list_once():
    async with open_watched(config_of({"s": entry()}, expose="all")) as watch, client_of(watch) as line:
        await line.names()
        await line.names()
        for line.slow in (False, True):
            await line.call("s__echo", {"text": "x"})
            await line.call("s__echo")
        menu, echo = (watch.hub.meter.since_start().tools["s"][name] for name in (MENU, "echo"))
        assert echo.calls == 4
        assert menu.direct * 0.9 < menu.spent < menu.direct * 1.2


async def test_the_rest_of_a_result_is_read_where_the_client_can_read_it():
    for choice, said in (
        ("all", "read the resource mcpx://result/"),
        ("both", 'resources("mcpx", "mcpx://result/'),
    ):
        config = config_of({"t": TABLES}, result_token_budget=500)
        async with open_watched(config) as watch, client_of(watch, choice) as line:
            for line.slow in (False, True):
                text = (await line.call("t__table", {"rows": 400}))["content"][0]["text"]
                assert said in text.splitlines()[-1]
                uri = re.search(r"mcpx://result/[^\s\")]+", text)[0]
                rest = (await line.ask("resources/read", {"uri": uri}))["contents"][0]["text"]
                assert said in rest.splitlines()[-1]


async def failure(line, name):
    """The error of a call by that name."""
    assert await line.call(name) is None
    return line.error


async def test_what_chooses_a_drawing_stays_in_a_description_and_what_hides_goes(tmp_path):
    said = "\u26a0\ufe0f Deprecated \u2139\ufe0f 1\ufe0f\u20e3 \u2764\ufe0f\u200d\U0001f525"
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": said}}}
    tool = {"name": "old", "inputSchema": schema, "title": said, "description": said}
    hiding = {**tool, "name": "hiding", "title": "h", "description": f"{said} a\u200bb\ufe0f\U000e0041"}
    (tmp_path / "tools").write_text(json.dumps([tool, hiding]))
    config = config_of({"s": entry(tools=str(tmp_path / "tools"))}, expose="both")
    async with open_watched(config) as watch, client_of(watch) as line:
        listed = {tool["name"]: tool for tool in (await line.ask("tools/list", {}))["tools"]}
        assert listed["s__old"] == {**tool, "name": "s__old"}
        assert listed["s__hiding"]["description"] == f"{said} ab"
        shown = await line.call("inspect", {"server_name": "s", "tool_names": ["old"]})
        assert shown["content"][0]["text"].count(said) >= 2  # of the tool, and of its parameter
        hidden = await line.call("inspect", {"server_name": "s", "tool_names": ["hiding"]})
        assert f"{said} ab" in hidden["content"][0]["text"]

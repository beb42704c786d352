"""MCPX as hosts meet it, by the names that they give: each lists, reads three times at once, and writes.

What each is shown is a row of `known_clients`.
"""

from __future__ import annotations

import json
import os

import pytest

from scripts.lab.contextbench.recorded import load
from tests.mcpx.core.gateway.native.test_tools import CHANGED, client_of
from tests.mcpx.scripted import config_of, entry, open_watched

pytestmark = pytest.mark.anyio
THREE = ["inspect", "exec", "resources"]
FOUR = ["inspect", "query", "exec", "resources"]
ANY = {"type": "object"}
LATEST = "2025-11-25"
TOOLS = [
    {"name": "hang", "inputSchema": ANY, "annotations": {"readOnlyHint": True, "openWorldHint": False}},
    {"name": "release", "inputSchema": ANY},
    {"name": "count", "inputSchema": ANY},
]
HOSTS = {
    "claude-code": FOUR,
    "claude-ai": FOUR,
    "codex-mcp-client": FOUR,
    "cursor-vscode": FOUR,
    "Visual Studio Code": FOUR,
    "gemini-cli-mcp-client": FOUR,
    "qwen-cli-mcp-client-mcpx": FOUR,
    "goose": FOUR,
    "github-copilot-developer": THREE,
    "opencode": THREE,
    "mcp": THREE,
    "mcp-inspector": THREE,
    "somebody": THREE,
    "": THREE,
}
AS_STRINGS = {"mcp"}
CAPABILITIES = [
    {},
    {"roots": {}, "elicitation": {}},
    {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}, "url": {}}},
    {"elicitation": {}, "tasks": {"list": {}}, "extensions": {"io.modelcontextprotocol/ui": {}}},
]
"""What hosts declare; the last of them is greeted by the SDK's server on either path."""


def config(ears=None, **settings):
    return config_of({"s": entry(ears, offers={"tools": TOOLS})}, **settings)


def meta_of(name, line):
    return {"_meta": line.meta["_meta"] | {"io.modelcontextprotocol/clientInfo": about(name)}}


def about(name):
    return {"name": name, "version": "1.0.0"}


def named(tool, **more):
    return {"server_name": "s", "tool_name": tool, "arguments": {}} | more


async def together(line, calls):
    """Send calls at once; the answers come by `each_of`."""
    ids = []
    for name, arguments, meta in calls:
        line._last += 1
        ids.append(line._last)
        params = {"name": name, "arguments": arguments} | meta
        message = {"jsonrpc": "2.0", "id": line._last, "method": "tools/call", "params": params}
        os.write(line._out, json.dumps(message).encode() + b"\n")
    return ids


async def each_of(line, ids):
    found = {}
    while set(ids) - set(found):
        answer = await line._next()
        if "id" in answer:
            found[answer["id"]] = answer
    return [found[each] for each in ids]


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize(("name", "tools"), HOSTS.items())
async def test_each_host_is_shown_what_it_acts_on_and_its_reads_run_at_once(name, tools, modern, ears):
    async with (
        open_watched(config(ears)) as watch,
        client_of(watch, client=about(name), modern=modern) as line,
    ):
        meta = meta_of(name, line) if modern else {}
        listed = {tool["name"]: tool for tool in (await line.ask("tools/list", meta))["tools"]}
        assert list(listed) == tools
        arguments = listed["exec"]["inputSchema"]["properties"]["arguments"]
        assert arguments["type"] == ("string" if name in AS_STRINGS else "object")
        assert "additionalProperties" not in arguments
        assert "anyOf" not in json.dumps([tool["inputSchema"] for tool in listed.values()])
        instructions = line.server.tool_list.instructions(name)
        assert ("The tool query runs a read-only one" in instructions) is (tools is FOUR)

        reads = "query" if tools is FOUR else "exec"
        ids = await together(line, [(reads, named("hang"), meta)] * 3)
        await ears.hear("call", tool="hang", count=3)
        release = await together(line, [("exec", named("release"), meta)])
        answers = await each_of(line, [*ids, *release])
        assert [each["result"]["content"][0]["text"] for each in answers] == ["released"] * 3 + ["done"]

        (wrote,) = await each_of(line, await together(line, [("exec", named("count"), meta)]))
        assert "isError" not in wrote["result"] or not wrote["result"]["isError"]
        (read,) = await each_of(line, await together(line, [("query", named("count"), meta)]))
        if tools is FOUR:
            assert read["result"]["isError"]
            assert len(ears.of("call", tool="count")) == 1
        else:
            assert read["error"]["message"].startswith("Unknown tool: query")
            assert "MCPX has inspect, exec and resources" in read["error"]["message"]


async def test_a_host_is_greeted_alike_on_both_paths():
    async with open_watched(config()) as watch:
        for name, tools in HOSTS.items():
            greetings = []
            for number, capabilities in enumerate(CAPABILITIES):
                async with client_of(watch, modern=True) as line:
                    line.slow = number == 0
                    hello = {
                        "protocolVersion": LATEST,
                        "capabilities": capabilities,
                        "clientInfo": about(name),
                    }
                    greetings.append(await line.ask("initialize", hello))
            assert all(each == greetings[0] for each in greetings)
            assert ("The tool query" in greetings[0]["instructions"]) is (tools is FOUR)


@pytest.mark.parametrize(
    ("tiers", "known", "unknown"),
    [
        ("auto", FOUR, THREE),
        ("on", FOUR, FOUR),
        (True, FOUR, FOUR),
        ("off", THREE, THREE),
        (False, THREE, THREE),
    ],
)
async def test_tiers_in_every_spelling(tiers, known, unknown):
    async with open_watched(config(tiers=tiers)) as watch:
        for name, tools in (("claude-code", known), ("somebody", unknown)):
            async with client_of(watch, client=about(name)) as line:
                assert [tool["name"] for tool in (await line.ask("tools/list", {}))["tools"]] == tools


async def test_a_reload_of_tiers_is_announced_to_the_hosts_that_it_changes():
    async with open_watched(config()) as watch, client_of(watch, client=about("claude-code")) as line:
        assert [tool["name"] for tool in (await line.ask("tools/list", {}))["tools"]] == FOUR
        await watch.hub.reload(config(tiers="off"))
        await line.hear(CHANGED)
        assert [tool["name"] for tool in (await line.ask("tools/list", {}))["tools"]] == THREE
        await watch.hub.reload(config(tiers="off", exec_arguments="string"))
        await line.hear(CHANGED)
        run = (await line.ask("tools/list", {}))["tools"][1]
        assert run["inputSchema"]["properties"]["arguments"]["type"] == "string"


async def test_what_gemini_cli_adds_to_every_call_is_not_taken_for_a_parameter(ears):
    own = {"name": "own", "inputSchema": ANY | {"properties": {"wait_for_previous": {"type": "boolean"}}}}
    servers = {"s": entry(ears, offers={"tools": [*TOOLS, own]})}
    async with open_watched(config_of(servers)) as watch:
        async with client_of(watch, client=about("gemini-cli-mcp-client")) as line:
            await line.ask("tools/list", {})
            for tool in ("count", "own"):
                result = await line.call("exec", named(tool, wait_for_previous=True, arguments={"n": 1}))
                assert not result.get("isError")
            strange = await line.call("exec", named("count", wait=True))
            assert "wait" in strange["content"][0]["text"]
            assert strange["isError"]
        heard = [call["arguments"] for call in ears.of("call")]
        assert heard == [{"n": 1}, {"n": 1, "wait_for_previous": True}]


@pytest.mark.parametrize("checked", [False, True])
async def test_recorded_calls_arrive_the_same_in_either_form(ears, tmp_path, checked):
    """With the schemas of their tools 41 of them are refused, as they do not fit: in either form."""
    recorded = load()
    calls = [call for session in recorded.sessions for call in session.calls if call.result is not None]
    assert len(calls) == 445
    tools = {}
    for call in calls:
        offered = next(tool for tool in recorded.servers[call.server] if tool["name"] == call.tool)
        tool = {"name": f"t{len(tools)}", "inputSchema": offered["inputSchema"] if checked else ANY}
        tools.setdefault((call.server, call.tool), tool)
    script = tmp_path / "tools.json"
    script.write_text(json.dumps([*tools.values()]))
    refused = 0
    async with (
        open_watched(config_of({"s": entry(ears, tools=str(script))})) as watch,
        client_of(watch) as line,
    ):
        await line.ask("tools/list", {})
        for call in calls:
            tool = tools[call.server, call.tool]["name"]
            heard = len(ears.of("call", tool=tool))
            as_object, as_string = [
                await line.call("exec", named(tool, arguments=arguments))
                for arguments in (call.arguments, json.dumps(call.arguments))
            ]
            assert as_object == as_string
            arrived = [each["arguments"] for each in ears.of("call", tool=tool)[heard:]]
            assert arrived == ([] if as_object.get("isError") else [call.arguments] * 2)
            refused += not arrived
    assert refused == (41 if checked else 0)

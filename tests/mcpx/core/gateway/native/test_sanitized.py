"""Native tools in forms that hosts accept: who is shown which, and how calls come back."""

from __future__ import annotations

import json

import pytest

from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.system.endpoint import Endpoint
from supervisors import ChildSpec
from tests.mcpx.core.gateway.endpoints import envelope_of
from tests.mcpx.line import Line
from tests.mcpx.scripted import config_of, entry, open_watched

pytestmark = pytest.mark.anyio
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"$ref": "#/$defs/path"},
        "lines": {"type": "array"},
        "since": {"type": "string", "format": "uri"},
        "data": {},
        "more": {"type": "object"},
        "limit": {"type": "integer"},
    },
    "required": ["path"],
    "anyOf": [{"required": ["lines"]}, {"required": ["since"]}],
    "$defs": {"path": {"type": "string"}},
}
TOOL = {"name": "odd", "description": "d" * 1500, "inputSchema": SCHEMA}
PLAIN = {"name": "plain", "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}}}


async def listed_as(watch, endpoints, name):
    async with Line(watch.hub).connected(endpoints.gateway(Endpoint(expose="all"))) as line:
        await line.initialize({"name": name, "version": "1"})
        tools = {each["name"]: each for each in (await line.ask("tools/list", {}))["tools"]}
        return tools["s__odd"], tools["s__plain"]


def world(watch):
    sessions = ClientSessions(watch.hub)
    watch.hub.root.add(ChildSpec(name="clients", run=sessions.run))
    return Endpoints(watch.hub, sessions)


def connected(watch):
    return Line(watch.hub).connected(world(watch).gateway(Endpoint(expose="all")))


def config(notes=None, **settings):
    answers = {"tools/call *": [{"append": str(notes), "line": "@{params.arguments:json}"}, {"say": "ran"}]}
    offers = {"tools": [TOOL, PLAIN]}
    return config_of({"s": entry(offers=offers, **({"answers": answers} if notes else {}))}, **settings)


async def test_a_known_client_is_shown_what_it_needs_and_no_other_client_is():
    async with open_watched(config()) as watch:
        endpoints = world(watch)
        for name in ("somebody", "mcp", ""):
            odd, plain = await listed_as(watch, endpoints, name)
            assert odd == TOOL | {"name": "s__odd"}
            assert plain == PLAIN | {"name": "s__plain"}
        claude, _ = await listed_as(watch, endpoints, "claude-code")
        assert claude["inputSchema"] == {key: each for key, each in SCHEMA.items() if key != "anyOf"}
        code, plain = await listed_as(watch, endpoints, "Visual Studio Code")
        assert code["inputSchema"]["properties"]["lines"] == {"type": "array", "items": {}}
        assert plain["inputSchema"] == PLAIN["inputSchema"]
        gemini, _ = await listed_as(watch, endpoints, "gemini-cli-mcp-client")
        assert gemini["inputSchema"]["properties"]["path"] == {"type": "string"}
        assert not {"$defs", "anyOf"} & gemini["inputSchema"].keys()
        copilot, plain = await listed_as(watch, endpoints, "github-copilot-developer")
        assert copilot["description"] == "d" * 1021 + "..."
        assert plain["description"] == "s.plain"


@pytest.mark.parametrize(("sanitize", "is_mended"), [("off", False), ("on", True)])
async def test_a_person_may_decide_for_all(sanitize, is_mended):
    async with open_watched(config(sanitize=sanitize)) as watch:
        endpoints = world(watch)
        for name in ("somebody", "gemini-cli-mcp-client"):
            odd, _ = await listed_as(watch, endpoints, name)
            assert ("$defs" not in odd["inputSchema"]) is is_mended


@pytest.mark.parametrize("modern", [False, True])
async def test_a_call_by_the_strict_form_arrives_as_the_server_wants_it(tmp_path, modern):
    notes, about = tmp_path / "notes", {"name": "mcp", "version": "1"}
    async with open_watched(config(notes, sanitize="on")) as watch, connected(watch) as line:
        meta = {"_meta": envelope_of({}) | {"io.modelcontextprotocol/clientInfo": about}} if modern else {}
        if not modern:
            await line.initialize(about)
        tools = (await line.ask("tools/list", meta))["tools"]
        schema = tools[0]["inputSchema"]
        assert schema["required"] == [*schema["properties"]] == [*SCHEMA["properties"]]
        given = {
            "path": "a",
            "lines": ["1", '"2"', '{"n": 3}'],
            "since": None,
            "data": '{"a": [1]}',
            "more": '{"b": null}',
            "limit": None,
        }
        result = await line.ask("tools/call", {"name": "s__odd", "arguments": given} | meta)
        assert not result.get("isError"), result
    assert json.loads(notes.read_text()) == {
        "path": "a",
        "lines": [1, "2", {"n": 3}],
        "data": {"a": [1]},
        "more": {"b": None},
    }


async def test_what_a_form_cannot_say_is_checked_by_the_servers_own_schema(tmp_path):
    notes = tmp_path / "notes"
    async with open_watched(config(notes)) as watch, connected(watch) as line:
        await line.initialize({"name": "gemini-cli-mcp-client", "version": "1"})
        result = await line.ask("tools/call", {"name": "s__odd", "arguments": {"path": "a"}})
        assert result["structuredContent"]["code"] == "invalid_arguments"
    assert not notes.exists()

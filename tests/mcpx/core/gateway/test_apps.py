"""MCP Apps: their pages and their own tools, for hosts that show apps and for those that do not."""

from __future__ import annotations

import json

import pytest

from tests.mcpx import scripted
from tests.mcpx.core.gateway.endpoints import ERAS
from tests.mcpx.core.gateway.hosts import WAYS, call, error_of, open_hosts, result_of, tools_of
from tests.mcpx.core.gateway.peer.peers import open_peers
from tests.mcpx.core.gateway.transparent.talking import on_stream
from tests.mcpx.core.gateway.transparent.test_equality import handshake
from tests.mcpx.scripted import config_of, open_watched

pytestmark = pytest.mark.anyio
UI = "io.modelcontextprotocol/ui"
HOST = {"extensions": {UI: {"mimeTypes": ["text/html;profile=mcp-app"]}}}
PAGE = "ui://clock/page.html"
OLD_PAGE = "ui://clock/old page.html"
LOOKS = {"csp": {"connectDomains": ["https://time.example"]}, "permissions": {"camera": {}}}


def tool(name, **meta):
    return {"name": name, "inputSchema": {"type": "object"}, "_meta": meta} | (
        {} if meta else {"description": "without a page"}
    )


TOOLS = [
    tool("get_time", ui={"resourceUri": PAGE, "vendor": [1, None]}, other={"kept": True}),
    tool("get_zone", **{"ui/resourceUri": OLD_PAGE, "openai/outputTemplate": PAGE}),
    tool("poll", ui={"resourceUri": PAGE, "visibility": ["app"]}),
    tool("ask_model", ui={"visibility": ["model"]}),
    tool("plain"),
]
APP_ONLY = {"poll"}


def page(uri, name):
    content = {
        "uri": uri,
        "mimeType": "text/html;profile=mcp-app",
        "text": f"<p>{name}",
        "_meta": {"ui": LOOKS},
    }
    return {"contents": [content]}


def clock(name, *, listed=False, **settings):
    """A server of apps. No list has its pages, unless they are `listed`."""
    resources = [{"uri": PAGE, "name": "page", "_meta": {"ui": LOOKS}}] if listed else []
    pages = {f"resources/read {uri}": page(uri, name) for uri in (PAGE, OLD_PAGE)}
    lost = {"error": {"code": -32602, "message": "Resource not found"}}
    return scripted.entry(
        settings=settings,
        greeting={
            "capabilities": {"tools": {}, "resources": {}, "extensions": {UI: {"listed": listed}}},
            "serverInfo": {"name": name, "version": "1"},
        },
        offers={"tools": TOOLS, "resources": resources, "resourceTemplates": []},
        answers={
            **pages,
            "resources/read*": [lost],
            **{f"tools/call {each['name']}": f"{each['name']} of {name}" for each in TOOLS},
        },
    )


@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_a_host_reads_each_page_at_its_own_server_and_runs_its_tools(way, era):
    async with open_hosts({"a": clock("a"), "b/c": clock("b")}) as its:
        host = await its.host(way, era, capabilities=HOST)
        tools = await tools_of(host)
        assert {each.partition("__")[2] for each in tools if each.startswith("a__")} >= {*APP_ONLY, "plain"}
        for server, name in (("a", "a"), ("b_c", "b")):
            mine = {each: tool for each, tool in tools.items() if each.startswith(f"{server}__")}
            by_tool = {
                each.split("__")[1].rsplit("_", 1)[0] if server == "b_c" else each[3:]: tool
                for each, tool in mine.items()
            }
            assert by_tool.keys() == {each["name"] for each in TOOLS}
            shown = by_tool["get_time"]["_meta"]
            assert shown["other"] == {"kept": True}
            assert shown["ui"].keys() == {"resourceUri", "vendor"}
            older = by_tool["get_zone"]["_meta"]
            named = {
                shown["ui"]["resourceUri"]: PAGE,
                older["openai/outputTemplate"]: PAGE,
                older["ui/resourceUri"]: OLD_PAGE,
            }
            assert len(named) == 2
            for uri in named:
                assert uri.startswith("ui://")
                read = await result_of(host, "resources/read", {"uri": uri})
                assert read["contents"] == page(uri, name)["contents"]
            assert by_tool["poll"]["_meta"]["ui"]["visibility"] == ["app"]
            poll = next(each for each, tool in mine.items() if tool is by_tool["poll"])
            assert await call(host, poll) == f"poll of {name}"
        for uri in (f"mcpx://a/{PAGE}", f"mcpx://b%2Fc/{PAGE}"):
            read = await result_of(host, "resources/read", {"uri": uri})
            assert read["contents"] == page(uri, "a" if "//a/" in uri else "b")["contents"]
        several = await error_of(host, "resources/read", {"uri": PAGE})
        assert "ui://mcpx/a/clock/page.html" in several["message"]
        unknown = await error_of(host, "resources/read", {"uri": "ui://mcpx/a/clock/other.html"})
        assert unknown["code"] in {-32002, -32602}
        assert "a__poll" in (await error_of(host, "tools/call", {"name": "poll"}))["message"]


@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_the_page_of_an_app_calls_tools_by_their_own_names(way, era):
    async with open_hosts({"a": clock("a", listed=True), "plain": scripted.entry()}) as its:
        host = await its.host(way, era, expose="three", capabilities=HOST)
        assert its.greeted["capabilities"]["extensions"] == {UI: {"listed": True}}
        assert (await tools_of(host)).keys() == {"inspect", "exec", "resources"}
        assert await call(host, "poll") == "poll of a"
        assert await call(host, "get_time") == "get_time of a"
        for name in ("ask_model", "echo"):  # which is for the model, and of a server without apps
            assert "Unknown tool" in (await error_of(host, "tools/call", {"name": name}))["message"]
        read = await result_of(host, "resources/read", {"uri": PAGE})
        assert read["contents"] == page(PAGE, "a")["contents"]
        (listed,) = (await result_of(host, "resources/list", {}))["resources"]
        assert (listed["uri"], listed["_meta"]) == ("ui://mcpx/a/clock/page.html", {"ui": LOOKS})
        assert "description" not in listed  # the beginning of its markup says nothing


@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_tools_for_an_app_alone_do_not_exist_for_a_model(way, era):
    async with open_hosts({"a": clock("a")}) as its:
        host = await its.host(way, era, expose="both")
        assert "a__poll" not in await tools_of(host)
        for name in ("a__poll", "poll"):
            assert "Unknown tool" in (await error_of(host, "tools/call", {"name": name}))["message"]
        for capabilities in ({}, HOST):
            model = await its.host(way, era, expose="both", capabilities=capabilities)
            for given in (
                {},
                {"server_name": "a"},
                {"query": "what time is it, in which zone"},
                {"server_name": "a", "tool_name": "plain"},
            ):
                assert "poll" not in await call(model, "inspect", **given), given
            for server, name in (("a", "poll"), ("", "poll"), ("a", "a.poll"), ("a", "a__poll")):
                asked = {"name": "exec", "arguments": {"server_name": server, "tool_name": name}}
                found = await result_of(model, "tools/call", asked)
                assert found["isError"], (server, name)
                assert "poll of a" not in json.dumps(found)
            assert await call(model, "exec", server_name="a", tool_name="get_time") == "get_time of a"
            assert await call(model, "resources", server_name="a", uri=PAGE) == "<p>a"
            assert await call(model, "resources", server_name="", uri=PAGE) == "<p>a"


async def test_at_a_transparent_endpoint_and_for_peers_everything_is_as_it_is():
    async with open_peers({"a": clock("a"), "b": clock("b")}) as peers:
        async with on_stream(peers.hub, "a") as host:
            await handshake(host)
            listed = await host.ask("tools/list", "{}")
            assert listed["result"]["tools"] == TOOLS
            read = await host.ask("resources/read", json.dumps({"uri": PAGE}))
            assert read["result"] == page(PAGE, "a")
        for way, era in WAYS:
            peer = await peers.open(way, era, server="b")
            tools = (await result_of(peer, "tools/list", {}))["tools"]
            assert sorted(tools, key=json.dumps) == sorted(TOOLS, key=json.dumps)
            assert (await result_of(peer, "resources/read", {"uri": PAGE}))["contents"] == page(PAGE, "b")[
                "contents"
            ]
            assert await call(peer, "poll") == "poll of b"


@pytest.mark.parametrize("era", ERAS)
async def test_servers_are_told_that_apps_are_shown(tmp_path, era):
    """Many offer their apps to no other client."""
    notes = tmp_path / "notes"
    noted = [{"append": str(notes), "line": "@{params:json}"}]
    listing = [
        *noted,
        {"result": {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}},
    ]
    answers = {"tools/list": listing}
    if era == "handshake":
        answers = {
            "initialize": [
                *noted,
                {
                    "result": {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {},
                        "serverInfo": {"name": "s", "version": "1"},
                    }
                },
            ]
        }
    server = scripted.entry(settings={"era": era}, modern=era == "modern", answers=answers)
    async with open_watched(config_of({"s": server})):
        told = json.loads(notes.read_text().splitlines()[0])
    given = (
        told["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        if era == "modern"
        else told["capabilities"]
    )
    assert given["extensions"][UI] == {"mimeTypes": ["text/html;profile=mcp-app"]}

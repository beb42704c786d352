"""A result over its budget, as clients read it: both eras, both paths of a stream, HTTP, and natively."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from mcpx.parts import open_hub
from tests.mcpx.core.gateway.fast.test_path import envelope, served, shake_hands
from tests.mcpx.core.gateway.frontends.http.test_frontend import http
from tests.mcpx.scripted import config_of
from tests.mcpx.serving import MODERN, write_config

pytestmark = pytest.mark.anyio
SERVER = {"command": sys.executable, "args": ["-S", "-E", str(Path(__file__).with_name("tables_server.py"))]}
NEXT = re.compile(r'\n\d+ more \w+.*: resources\("mcpx", "([^"]+)"\)$')
MANY = 40_000  # rows: 5 MB
SOME = 4000
LARGE = 20_000  # rows of a result that has a path of its own
CALLS = [
    ("exec", {"tool_name": "table", "arguments": {"rows": 400}}),
    ("exec", {"tool_name": "table", "arguments": {"rows": 400, "indent": 2}}),
    ("exec", {"tool_name": "table", "arguments": {"rows": 20_000}}),
    ("exec", {"tool_name": "table", "arguments": {"rows": 20}, "max_tokens": 100}),
    ("exec", {"tool_name": "lines", "arguments": {"rows": 20_000}, "max_tokens": 0}),
    ("exec", {"tool_name": "lines", "arguments": {"rows": 60_000}}),
    ("exec", {"tool_name": "several", "arguments": {"rows": 1000}}),
    ("exec", {"tool_name": "several", "arguments": {"rows": 50_000}}),
    ("exec", {"tool_name": "broken", "arguments": {"rows": 1000}}),
    ("exec", {"tool_name": "claims", "arguments": {"rows": 1000}}),
    ("exec", {"tool_name": "structured", "arguments": {"rows": 1000}}),
    ("exec", {"tool_name": "structured", "arguments": {"rows": 1000}, "select": "items[?id < `3`].name"}),
    ("exec", {"tool_name": "table", "arguments": {}, "select": "items[:3].{id: id, name: name}"}),
    ("exec", {"tool_name": "table", "arguments": {}, "select": "itemz"}),
    ("exec", {"tool_name": "table", "arguments": {}, "select": "items["}),
    ("resources", {"uri": "file:///lines.txt"}),
    ("resources", {"uri": "mcpx://result/00ff?from=3"}),
]
SMALL_CALLS = [
    (tool, arguments) for tool, arguments in CALLS if arguments.get("arguments", {}).get("rows", 0) < LARGE
]


class Caller:
    """Calls MCPX's tools over a raw stream, in one of the eras."""

    def __init__(self, client, *, modern, name="claude-code"):
        self.client, self.modern, self.name = client, modern, name

    async def open(self):
        if self.modern:
            await self.client.ask("tools/list", {"_meta": envelope(self.name)})
        else:
            await shake_hands(self.client, self.name)
        return self

    async def ask(self, method, **params):
        if self.modern:
            params["_meta"] = envelope(self.name)
        return await self.client.ask(method, params)

    async def call(self, tool, **arguments):
        return (await self.ask("tools/call", name=tool, arguments=arguments))["result"]

    async def read(self, uri):
        return (await self.call("resources", server_name="mcpx", uri=uri))["content"]

    async def read_natively(self, uri):
        return (await self.ask("resources/read", uri=uri))["result"]["contents"]


def rows_in(blocks):
    return [int(number) for block in blocks for number in re.findall(r'"?row (\d+)\b', block.get("text", ""))]


async def follow(read, blocks):
    """The rows of a result and of all pages after it."""
    rows = rows_in(blocks)
    while found := NEXT.search(blocks[-1]["text"]):
        blocks = await read(found[1])
        rows += rows_in(blocks)
    return rows


def without_ids(answer):
    """An answer without what differs from call to call."""
    text = re.sub(r"mcpx://result/[0-9a-f]+", "mcpx://result/ID", json.dumps(answer))
    return json.loads(re.sub(r"(calls\W+)\d+", r"\g<1>0", text))


@pytest.mark.parametrize(
    ("modern", "fast", "rows"),
    [(False, False, SOME), (True, False, SOME), (False, True, SOME), (True, True, MANY)],
    ids=["handshake-sdk", "modern-sdk", "handshake-fast", "modern-fast-5MB"],
)
async def test_every_row_can_be_read_over_a_stream(modern, fast, rows):
    with anyio.fail_after(55):
        budget = 8000 if rows == SOME else 40_000
        config = config_of({"t": SERVER}, result_token_budget=budget)
        async with open_hub(config) as hub, served(hub, fast=fast) as client:
            assert await hub.settled(50)
            caller = await Caller(client, modern=modern).open()
            table = {"server_name": "t", "tool_name": "table", "arguments": {"rows": rows}}
            first = (await caller.call("exec", **table))["content"]
            assert len(first[-1]["text"]) < 6 * budget
            read = caller.read if fast else caller.read_natively
            assert await follow(read, first) == list(range(rows))


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
@pytest.mark.parametrize(
    ("name", "policy", "calls"),
    [
        ("claude-code", "auto", CALLS),
        ("claude-code", "always", SMALL_CALLS),
        ("somebody", "auto", SMALL_CALLS),
    ],
    ids=["claude-code-auto", "claude-code-always", "somebody-auto"],
)
async def test_both_paths_give_the_same_pages(modern, name, policy, calls):
    answers = {}
    with anyio.fail_after(55):
        async with open_hub(config_of({"t": SERVER}, include_structured_content=policy)) as hub:
            assert await hub.settled(50)
            for fast in (False, True):
                async with served(hub, fast=fast) as client:
                    caller = await Caller(client, modern=modern, name=name).open()
                    answers[fast] = [
                        without_ids(await caller.call(tool, server_name="t", **arguments))
                        for tool, arguments in calls
                    ]
    for (tool, arguments), one, other in zip(calls, answers[False], answers[True], strict=True):
        assert one == other, f"{tool} {arguments}"


async def test_a_client_that_leaves_takes_its_results_along():
    with anyio.fail_after(50):
        async with open_hub(config_of({"t": SERVER})) as hub:
            assert await hub.settled(50)
            async with served(hub, fast=True) as client:
                caller = await Caller(client, modern=False).open()
                await caller.call("exec", server_name="t", tool_name="lines", arguments={"rows": 5000})
                assert hub.views.kept.size > 100_000
            assert hub.views.kept.size == 0


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_every_row_can_be_read_over_http(tmp_path, mode):
    config = write_config(tmp_path, {"t": SERVER}, startup_wait=20)
    async with http(tmp_path, config, "--no-auth") as (_, url), httpx2.AsyncClient() as client:
        transport = streamable_http_client(url, http_client=client)
        with anyio.fail_after(50):
            async with Client(transport, mode=mode, cache=None) as session:
                assert (session.protocol_version == MODERN) is (mode == "auto")

                async def call(tool, arguments):
                    result = await session.call_tool(tool, arguments)
                    return [{"text": block.text} for block in result.content]

                async def read(uri):
                    return await call("resources", {"server_name": "t", "uri": uri})

                async def read_natively(uri):
                    found = (await session.read_resource(uri)).contents
                    return [{"text": each.text} for each in found]

                table = {"server_name": "t", "tool_name": "table", "arguments": {"rows": SOME}}
                first = await call("exec", table)
                assert await follow(read, first) == list(range(SOME))
                assert await follow(read_natively, first) == list(range(SOME))
                for reading in (read, read_natively):
                    address = NEXT.search(first[-1]["text"])[1].partition("?")[0]
                    selected = await reading(f"{address}?select=items%5B3321%5D.name")
                    assert selected == [{"text": "row 3321"}]
                with pytest.raises(MCPError, match="No result is kept under mcpx://result/00ff"):
                    await session.read_resource("mcpx://result/00ff?from=3")

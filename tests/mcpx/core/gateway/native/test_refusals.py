"""What MCPX itself refuses, and with which codes: of the client's revision, and with `data.uri`."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial

import pytest
from mcp import MCPError

from mcpx.core.catalog.snapshot import State
from tests.mcpx.core.gateway.native.connecting import entry, open_gateway, subscribe
from tests.mcpx.scripted import config_of

pytestmark = pytest.mark.anyio

NOT_FOUND = {"handshake": -32002, "modern": -32602}


async def refused(call, *arguments):
    with pytest.raises(MCPError) as caught:
        await call(*arguments)
    return caught.value.error


@pytest.fixture
async def mcpx(ears):
    servers = {
        "a": entry("both", ears),
        "b": entry("handshake", ears),
        "off": entry("both", ears, native=False),
    }
    async with open_gateway(config_of(servers)) as running:
        yield running


NOWHERE = [
    ("mcpx://a/note:///../../etc/passwd", "steps out"),
    ("mcpx://a/note:///%2e%2e/%2E%2E/etc/passwd", "steps out"),
    ("mcpx://a/note:///%252e%252e/etc/passwd", "steps out"),
    ("mcpx://a/note:///x/..%5cy", "steps out"),
    ("mcpx://a/note:///x%00y", "control characters"),
    ("mcpx://a/note:///x\ny", "control characters"),
    ("mcpx://a/file:///etc/passwd", "no resource of that server has such a scheme"),
    ("mcpx://a/passwd", "no resource"),
    ("mcpx://nobody/note:///full", "No server is offered as 'nobody'"),
    ("mcpx://off/note:///full", "No server is offered as 'off'"),
    ("mcpx://%61/note:///full", "No server has"),  # one resource has one name
    ("nothing:///x", "mcpx://SERVER/URI"),
    ("note:///full", "mcpx://a/note:///full, mcpx://b/note:///full"),  # two servers have it
]


async def test_a_uri_that_goes_nowhere(mcpx, ears, mode):
    async with mcpx.client(mode) as client:
        asks = [client.read_resource] + ([partial(subscribe, client)] if mode == "handshake" else [])
        for uri, why in NOWHERE:
            for ask in asks:
                error = await refused(ask, uri)
                assert (error.code, error.data["uri"]) == (NOT_FOUND[mode], uri)
                assert why in error.message
    assert ears.of("read") == []
    assert ears.of("subscribed") == []


async def test_the_resources_tool_refuses_the_same(mcpx, ears, mode):
    async with mcpx.client(mode) as client:
        given = {"server_name": "a", "uri": "note:///%2e%2e/x"}
        answer = await client.call_tool("resources", given)
        assert answer.is_error
        assert answer.structured_content["code"] == "unknown_resource"
    assert ears.of("read") == []


async def test_the_resources_tool_reads_what_only_a_template_matches_and_lists_it(mcpx, mode):
    async with mcpx.client(mode) as client:
        answer = await client.call_tool("resources", {"server_name": "a", "uri": "row://people/7"})
        assert not answer.is_error
        same = await client.call_tool("resources", {"server_name": "a", "uri": "mcpx://a/row://people/7"})
        assert same.content == answer.content  # a host may show the model MCPX's name for it
        other = await client.call_tool("resources", {"server_name": "a", "uri": "mcpx://b/row://people/7"})
        assert other.structured_content["code"] == "unknown_resource"
        listed = {tool.name: tool.description for tool in (await client.list_tools()).tools}
        assert "\nrow://{table}/{id}{?columns*} (row, application/json)" in listed["resources"]


async def test_a_blob_that_is_not_base64(mcpx, mode):
    async with mcpx.client(mode) as client:
        error = await refused(client.read_resource, "mcpx://b/row://t/broken")
        assert error.code == -32603
        assert "not base64" in error.message
        assert error.data["uri"] == "mcpx://b/row://t/broken"
        assert error.data["code"] == "protocol_error"
        error = await refused(client.get_prompt, "b.brief.the/team", {"who": "broken"})
        assert error.code == -32603
        assert "not base64" in error.message


async def test_a_server_that_is_away(ears, mode, tmp_path):
    """Its last known lists are given; what needs it fails as the protocol says, with the outcome."""
    started = tmp_path / "once"
    once = f"import os, sys; sys.exit(3) if os.path.exists({str(started)!r}) else open({str(started)!r}, 'x')"
    server = entry("both", ears, restart={"initial": 30, "cap": 30, "park_after": 2})
    command = [sys.executable, *server["args"]]
    server["args"] = ["-c", f"{once}; os.execv({sys.executable!r}, {command!r})"]
    async with open_gateway(config_of({"a": server}, queue_timeout=0.2)) as mcpx, mcpx.client(mode) as client:
        before = await client.list_resources()
        os.kill(mcpx.hub.upstreams["a"].pid, signal.SIGKILL)
        await mcpx.watch.becomes(State.PARKED, "a")
        after = await client.list_resources()
        assert len(before.resources) == 2
        assert after.resources == before.resources
        error = await refused(client.read_resource, "mcpx://a/note:///full")
        assert error.code == -32603
        assert error.data["uri"] == "mcpx://a/note:///full"
        assert (error.data["code"], error.data["outcome"]) == ("server_unavailable", "not_sent")
        error = await refused(client.get_prompt, "a.brief.the/team", {"who": "x"})
        assert (error.code, error.data["outcome"]) == (-32603, "not_sent")


async def test_an_unknown_prompt(mcpx, mode):
    async with mcpx.client(mode) as client:
        for name in ("a.none", "none.brief.the/team", "brief.the/team", "off.brief.the/team", ""):
            error = await refused(client.get_prompt, name)
            assert error.code == -32602
            assert f"Unknown prompt: {name}" in error.message


async def test_the_nearest_prompt_is_given(mcpx, mode):
    async with mcpx.client(mode) as client:
        error = await refused(client.get_prompt, "a.brief-the-team")
        assert error.data["did_you_mean"][0] == "a.brief.the/team"


async def test_a_bad_cursor(mcpx, mode):
    async with mcpx.client(mode) as client:
        for cursor in ("", "x", "W10", "bm90aGluZw", "\u20ac"):
            for ask in (client.list_resources, client.list_resource_templates, client.list_prompts):
                error = await refused(partial(ask, cursor=cursor))
                assert error.code == -32602
                assert "cursor" in error.message


async def test_a_server_that_is_not_offered_natively_is_in_no_list(mcpx, mode):
    async with mcpx.client(mode) as client:
        uris = [item.uri for item in (await client.list_resources()).resources]
        assert {uri.split("/")[2] for uri in uris} == {"a", "b"}
        names = [item.name for item in (await client.list_prompts()).prompts]
        assert names == ["a.brief.the/team", "b.brief.the/team"]
        answer = await client.call_tool("resources", {"server_name": "off", "uri": "note:///full"})
        assert not answer.is_error  # the tool is another matter


async def test_switched_off_as_a_whole(ears, mode):
    async with (
        open_gateway(config_of({"a": entry("both", ears)}, native=False)) as mcpx,
        mcpx.client(mode) as client,
    ):
        can = client.server_capabilities
        assert (can.resources, can.prompts, can.completions) == (None, None, None)
        assert can.tools.list_changed
        assert (await refused(client.list_resources)).code == -32601

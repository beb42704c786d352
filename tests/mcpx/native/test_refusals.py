"""What MCPX itself refuses, and with which codes: of the client's revision, and with `data.uri`."""

from __future__ import annotations

import os
import signal

import pytest
from mcp import MCPError

from mcpx.catalog.model import State
from tests.mcpx.native.behind import behind, direct, entry
from tests.mcpx.scripted import config_of

pytestmark = pytest.mark.anyio

NOT_FOUND = {"handshake": -32002, "modern": -32602}


async def refused(call, *arguments):
    with pytest.raises(MCPError) as caught:
        await call(*arguments)
    return caught.value.error


@pytest.fixture
async def mcpx(ears):
    servers = {"a": entry("both", ears), "b": entry("handshake", ears), "off": entry("both", ears, native=False)}
    async with behind(config_of(servers)) as running:
        yield running


@pytest.mark.parametrize(
    ("uri", "why"),
    [
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
    ],
)
async def test_a_uri_that_goes_nowhere(mcpx, ears, mode, uri, why):
    async with mcpx.client(mode) as client:
        for ask in (client.read_resource, client.session.subscribe_resource):
            if mode == "modern" and ask != client.read_resource:
                continue  # there is no such request
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
        listed = {tool.name: tool.description for tool in (await client.list_tools()).tools}
        assert "row://{table}/{id}{?columns*} (A row" in listed["resources"] or "row://" in listed["resources"]


async def test_a_blob_that_is_not_base64(mcpx, mode):
    async with mcpx.client(mode) as client:
        error = await refused(client.read_resource, "mcpx://b/row://t/broken")
        assert error.code == -32603
        assert "not base64" in error.message
        assert error.data["uri"] == "mcpx://b/row://t/broken"
        assert error.data["code"] == "protocol_error"


async def test_a_server_that_is_away(ears, mode, tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    scripted = entry("both", ears, restart={"initial": 5, "cap": 5, "healthy_after": 0.001, "park_after": 1})
    async with behind(config_of({"a": scripted}, queue_timeout=0.2)) as mcpx, mcpx.client(mode) as client:
        upstream = mcpx.hub.upstreams["a"]
        before = await client.list_resources()
        os.kill(upstream.pid, signal.SIGSTOP)  # it can neither answer nor come back in time
        upstream.config.transport.args[:0]  # (the command stays as it is)
        os.kill(upstream.pid, signal.SIGKILL)
        await mcpx.watch.leaves(State.READY)
        after = await client.list_resources()
        assert [item.uri for item in after.resources] == [item.uri for item in before.resources]


@pytest.mark.parametrize("name", ["a.none", "none.brief.the/team", "brief.the/team", "off.brief.the/team", ""])
async def test_an_unknown_prompt(mcpx, mode, name):
    async with mcpx.client(mode) as client:
        error = await refused(client.get_prompt, name)
        assert error.code == -32602
        assert f"Unknown prompt: {name}" in error.message


async def test_the_nearest_prompt_is_given(mcpx, mode):
    async with mcpx.client(mode) as client:
        error = await refused(client.get_prompt, "a.brief-the-team")
        assert error.data["did_you_mean"][0] == "a.brief.the/team"


@pytest.mark.parametrize("cursor", ["", "x", "W10", "bm90aGluZw", "\u20ac"])
async def test_a_bad_cursor(mcpx, mode, cursor):
    async with mcpx.client(mode) as client:
        for ask in (client.list_resources, client.list_resource_templates, client.list_prompts):
            with pytest.raises(MCPError) as caught:
                await ask(cursor=cursor)
            assert caught.value.error.code == -32602
            assert "cursor" in caught.value.error.message


async def test_a_server_that_is_not_offered_natively_is_in_no_list(mcpx, mode):
    async with mcpx.client(mode) as client:
        uris = [item.uri for item in (await client.list_resources()).resources]
        assert {uri.split("/")[2] for uri in uris} == {"a", "b"}
        names = [item.name for item in (await client.list_prompts()).prompts]
        assert names == ["a.brief.the/team", "b.brief.the/team"]
        answer = await client.call_tool("resources", {"server_name": "off", "uri": "note:///full"})
        assert not answer.is_error  # the tool is another matter


async def test_switched_off_as_a_whole(ears, mode):
    async with behind(config_of({"a": entry("both", ears)}, native=False)) as mcpx, mcpx.client(mode) as client:
        can = client.server_capabilities
        assert (can.resources, can.prompts, can.completions) == (None, None, None)
        assert can.tools.list_changed
        assert (await refused(client.list_resources)).code == -32601


async def test_direct_and_mcpx_agree_that_a_subscription_to_nothing_is_accepted(ears):
    """The protocol lets a server accept any URI; MCPX leaves that to the server where its scheme is offered."""
    async with direct("handshake", ears) as theirs:
        await theirs.session.subscribe_resource("note:///not-yet")

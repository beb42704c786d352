"""Every tool of the five servers is in the catalogue, as the server itself tells it."""

from __future__ import annotations

import re

import pytest

from mcpx.core.rendering.toon import decode
from tests.live import servers

pytestmark = pytest.mark.live

AT_LEAST = {"everything": 12, "filesystem": 14, "memory": 9, "git": 12, "time": 2}
HANDSHAKE_ERA = "2025-11-25"
MODERN_ERA = "2026-07-28"


@pytest.fixture(params=servers.NAMES)
def server(request, scratch):
    return servers.require(servers.live_server(request.param, scratch)).name


def as_inspected(tool):
    """What inspect must say of a tool, from what the server says of it."""
    told = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
    renamed = {"inputSchema": "input_schema", "outputSchema": "output_schema"}
    return {renamed.get(key, key): value for key, value in told.items()}


def test_the_client_speaks_the_era_that_the_test_is_about(gateway, endpoint):
    expected = HANDSHAKE_ERA if endpoint.endswith("legacy") else MODERN_ERA
    assert gateway.protocol_version == expected


def test_the_client_is_shown_three_tools(gateway):
    assert list(gateway.descriptions()) == ["inspect", "exec", "resources"]


def test_the_description_names_every_tool(gateway, direct, server):
    blocks = re.split(r"^## ", gateway.descriptions()["inspect"], flags=re.MULTILINE)
    # under its own heading, or under that of a server with the same tools
    (block,) = [
        block
        for block in blocks
        if re.search(rf"\A{server}\b|^same tools as .*\b{server}\b", block, re.MULTILINE)
    ]
    named = set(re.findall(r"[\w-]+", block))
    names = {tool.name for tool in direct.tools(server)}
    assert len(names) >= AT_LEAST[server]
    assert names <= named


def test_inspect_of_a_server_gives_every_tool_as_the_server_lists_it(gateway, direct, server):
    listed = direct.tools(server)
    answer = gateway.inspect(server)
    assert not answer.is_error
    assert answer.structured_content["server"] == server
    assert answer.structured_content["state"] == "ready"
    assert answer.structured_content["tools"] == list(map(as_inspected, listed))


def test_inspect_of_each_tool_gives_it_whole(gateway, direct, server):
    for tool in direct.tools(server):
        answer = gateway.inspect(server, tool.name)
        assert not answer.is_error
        assert answer.structured_content.items() >= as_inspected(tool).items()
        assert answer.structured_content["server"] == server


def test_inspect_shows_the_model_each_tool_with_a_typescript_type(gateway, direct, server):
    listed = direct.tools(server)
    (block,) = gateway.inspect(server).content
    shown = decode(block.text)["tools"]
    assert [tool["name"] for tool in shown] == [tool.name for tool in listed]
    for tool, original in zip(shown, listed, strict=True):
        assert tool["input_schema"].startswith("{")
        assert all(name in tool["input_schema"] for name in original.input_schema["properties"])
        whole = original.description or ""
        assert tool["description"] in {whole, whole[:300] + "..."}


def test_a_server_under_a_recorder_is_the_same_server(gateway, direct):
    servers.require(servers.live_server("time", gateway.folder))
    assert [tool["name"] for tool in gateway.inspect("recorded").structured_content["tools"]] == [
        tool.name for tool in direct.tools("time")
    ]

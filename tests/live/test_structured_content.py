"""`structuredContent` is left out for clients that would show it to the model, and given to the others."""

from __future__ import annotations

import sys

import pytest
from mcp_types import Implementation

from tests.live import servers
from tests.live.gateways import http_client, http_endpoint, open_gateway, write_config

pytestmark = [pytest.mark.live, pytest.mark.anyio]

FEEDING = ["claude-code", "cursor-vscode", "Cursor", "github-copilot-developer", "copilot-cli"]
OTHERS = ["claude-ai", "Visual Studio Code", "live-test", "my-cursor"]
CALL = {"server_name": "tiny", "tool_name": "one"}


@pytest.fixture
def config(tmp_path):
    """`config(**settings)`: a configuration file with one tiny server."""
    names = tmp_path / "tools.json"
    names.write_text('["one"]', "utf-8")
    entry = {"command": sys.executable, "args": ["-S", str(servers.HERE / "from_file.py"), str(names)]}
    return lambda **settings: write_config(tmp_path / "mcpx", {"tiny": entry}, **settings)


async def given(client):
    """The structured content of a result of each tool, of a failure too; the text must be there always."""
    answers = [
        await client.call_tool("exec", CALL),
        await client.call_tool("inspect", {"server_name": "tiny"}),
        await client.call_tool("exec", {**CALL, "tool_name": "none"}),
        await client.call_tool("exec", {"server_name": "tiny"}),
    ]
    assert [bool(answer.is_error) for answer in answers] == [False, False, True, True]
    assert all(answer.content[0].text for answer in answers)
    return [answer.structured_content is not None for answer in answers]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_it_depends_on_the_clients_name(config, mode):
    async with http_endpoint(config()) as endpoint:
        for name in FEEDING + OTHERS:
            info = Implementation(name=name, version="1")
            async with http_client(endpoint, mode=mode, client_info=info) as client:
                assert await given(client) == [name in OTHERS] * 4, name


@pytest.mark.parametrize("endpoint", ["stdio-legacy", "stdio-auto"])
@pytest.mark.parametrize(("name", "expected"), [("claude-code", False), ("claude-ai", True)])
async def test_it_depends_on_the_clients_name_over_stdio(config, endpoint, name, expected):
    async with open_gateway(endpoint, config(), name=name) as gateway:
        assert await given(gateway.client) == [expected] * 4


@pytest.mark.parametrize(
    ("policy", "name", "expected"), [("always", "claude-code", True), ("never", "claude-ai", False)]
)
async def test_the_setting_wins(config, policy, name, expected):
    async with open_gateway("stdio-legacy", config(include_structured_content=policy), name=name) as gateway:
        assert await given(gateway.client) == [expected] * 4

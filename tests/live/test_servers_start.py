"""The third-party servers start and list their tools, without MCPX in between."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from mcp import Client, StdioServerParameters

from tests.live import servers

pytestmark = pytest.mark.live

A_TOOL_OF = {
    "everything": "echo",
    "filesystem": "read_text_file",
    "memory": "create_entities",
    "git": "git_log",
    "time": "convert_time",
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", servers.NAMES)
async def test_the_server_starts_and_lists_its_tools(name, tmp_path):
    server = servers.require(servers.live_server(name, tmp_path))
    command = StdioServerParameters(command=server.command, args=server.args, env=server.env)
    async with Client(command, read_timeout_seconds=30) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
    assert A_TOOL_OF[name] in tools


@pytest.fixture
def absent(tmp_path):
    return servers.LiveServer(name="none", command="x", args=[], program=servers.HERE / "nowhere")


def test_a_missing_server_skips_the_test_with_a_line_that_says_so(absent, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(
        pytest.skip.Exception, match="none: nowhere is missing; scripts/test --all installs it"
    ):
        servers.require(absent)


def test_a_missing_server_fails_the_test_in_ci(absent, monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="none: nowhere is missing"):
        servers.require(absent)


def test_a_missing_node_is_named(tmp_path, monkeypatch):
    server = servers.live_server("everything", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert servers.missing(server) == "everything: node is not installed"


def test_the_repository_has_one_commit_and_is_made_once(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("the git program is not installed")
    assert servers.make_repository(tmp_path) == servers.make_repository(tmp_path)
    log = subprocess.run(
        ["git", "log", "--format=%s"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert log.stdout == "Say hello\n"

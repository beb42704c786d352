"""From five real servers in the files of two clients to five behind MCPX in a real client: two commands.

What a person does on the first day, with the official client in the place of the desktop program: it starts
what stands in the client's file, with the environment of a program that was started from a desktop, where the
servers' commands are not on the PATH. docs/README.md shows the same, recorded.
"""

from __future__ import annotations

import json

import pytest

from tests.live import servers
from tests.live.getting_in import Home

pytestmark = [pytest.mark.live, pytest.mark.anyio]


@pytest.fixture
def at_home(tmp_path, five):
    for name in servers.NAMES:
        servers.require(servers.live_server(name, tmp_path))
    kept = Home(tmp_path, five)
    yield kept
    kept.mcpx("daemon", "stop")


async def test_two_commands_put_five_servers_behind_mcpx_and_one_takes_it_back(at_home, scratch):
    files = (at_home.claude, at_home.vscode)
    before = [file.read_bytes() for file in files]
    shown = at_home.mcpx("import", "--yes")
    assert all(name in shown for name in servers.NAMES)
    at_home.mcpx("install", "--adopt", "--yes", "claude-desktop", "vscode")
    assert [*json.loads(at_home.claude.read_bytes())["mcpServers"]] == ["mcpx"]
    assert b"// mine\r\n" in at_home.vscode.read_bytes()
    done = await at_home.call_each(scratch)
    assert done[0][0] == "tools: inspect, exec, resources"
    assert len(done) == 1 + len(servers.NAMES)
    at_home.mcpx("uninstall", "--yes")
    assert [file.read_bytes() for file in files] == before

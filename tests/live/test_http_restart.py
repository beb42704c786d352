"""A real server over HTTP that is restarted has forgotten its sessions: the next call is answered anyway."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.snapshot import State
from tests.live import servers
from tests.live.processes import serving
from tests.mcpx.scripted import config_of, open_watched
from tests.ports import free_port

pytestmark = [pytest.mark.live, pytest.mark.anyio]

KINDS = {
    "streamableHttp": ("http", "mcp", "listening on port"),
    "sse": ("sse", "sse", "running on port"),
}
PATIENT = {"park_after": 1000, "initial": 0.05, "cap": 0.5}


@pytest.mark.parametrize("transport", KINDS)
async def test_the_next_call_after_a_restart_is_answered(transport):
    kind, path, ready = KINDS[transport]
    port = free_port()
    server = servers.require(servers.everything_over_http(transport, port))

    def running():
        return serving([server.command, *server.args], ready=ready, env=server.env)

    entry = {"type": kind, "url": f"http://127.0.0.1:{port}/{path}", "restart": PATIENT}
    async with open_watched(config_of({"w": entry})) as watch:
        for number in range(3):
            async with running():
                text = await watch.text("echo", {"message": str(number)}, server="w")
                assert text == f"Echo: {number}"
            if number == 0:  # gone for longer than it takes to notice
                await watch.leaves(State.READY, "w")
        assert watch.hub.supervisor.state("w").generation >= 3

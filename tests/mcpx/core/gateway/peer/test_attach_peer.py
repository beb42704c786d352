"""`mcpx attach --peer`: one server for another MCPX, and its end with that of the daemon."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress

import pytest

from tests.mcpx.core.daemon.conftest import ears, house
from tests.mcpx.scripted import entry
from tests.mcpx.serving import ENVELOPE, serving

__all__ = ["ears", "house"]
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
ECHO = {"name": "echo", "arguments": {"text": "hi"}}


def peer(house, name, *more):
    return serving(house.folder, "attach", "--config", house.config, "--peer", name, *more)


async def test_a_server_is_served_under_its_own_names_and_a_killed_daemon_ends_the_session(house, ears):
    house.write({"lab/a b": entry(ears), "other": entry()})
    async with peer(house, "lab%2Fa%20b") as served:
        assert (await served.initialize())["capabilities"]["tools"] == {"listChanged": True}
        tools = await served.request("tools/list")
        assert "echo" in {tool["name"] for tool in tools["tools"]}
        assert (await served.call("echo", text="hi"))["content"] == [{"type": "text", "text": "hi"}]
        asked = await served.ask("tools/call", {"name": "hang", "arguments": {}})
        await ears.hear("call", tool="hang")
        os.kill(house.pid, signal.SIGKILL)
        assert await served.exit_code() == 0
        assert asked not in {message.get("id") for message in await served.rest_of_output()}
    async with peer(house, "lab%2Fa%20b") as served:  # which starts the next daemon
        discovered = await served.request("server/discover", {"_meta": ENVELOPE})
        assert discovered["supportedVersions"] == ["2026-07-28"]
        result = await served.request("tools/call", {**ECHO, "_meta": ENVELOPE})
        assert result == {"content": [{"type": "text", "text": "hi"}], "resultType": "complete"}


async def test_a_server_that_there_is_not_ends_it_with_the_reason_and_nothing_is_made_up(house):
    house.write({"shop": entry()}, profiles={"none": {"servers": []}})
    for name, more in (("shob", ()), ("shop", ("--profile", "none"))):
        async with peer(house, name, *more) as served:
            with suppress(BrokenPipeError):  # it has found out, and ended, before it was asked
                await served.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
            assert await served.exit_code() == 1
            assert await served.rest_of_output() == []
            said = await served.said("mcpx attach: ")
            assert json.dumps(name) in said


def test_options_that_do_not_go_together(house):
    house.write({})
    done = house.run("attach", "--peer", "a", "--server", "b")
    assert done.returncode == 2
    assert "--peer" in done.stderr

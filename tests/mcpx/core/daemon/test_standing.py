"""A daemon whose event loop stands: it says where, ends, and its clients get the next one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import serving

pytestmark = pytest.mark.anyio

STANDING = Path(__file__).with_name("standing_daemon.py")


async def test_a_daemon_that_stands_ends_and_the_shim_starts_the_next(house, ears):
    house.write({"s": entry(ears)}, startup_wait=20)
    async with serving(house.folder, house.config, command=lambda: [str(STANDING)]) as daemon:
        await daemon.logged("socket.listening")
        first = house.pid
        async with house.attached() as client:
            await client.initialize()
            await client.request("tools/list")
            hanging = await client.ask(
                "tools/call", {"name": "exec", "arguments": {"server_name": "s", "tool_name": "hang"}}
            )
            call = await ears.hear("call", tool="hang")
            assert call
            os.kill(first, signal.SIGUSR1)
            stands = await daemon.logged("loop.stands")
            assert "standing_daemon.py" in stands["stack"]
            assert await daemon.exit_code() == 1
            killed = await daemon.logged("mcpx.killed")
            assert "event loop has stood" in killed["reason"]
            lost = (await client.answer(hanging))["result"]["structuredContent"]
            assert (lost["code"], lost["outcome"]) == ("server_died", "unknown")
            answer = await client.call("exec", server_name="s", tool_name="echo", arguments={"text": "hi"})
            assert answer["content"][0]["text"] == "hi"
            assert house.pid not in {None, first}


async def test_a_daemon_that_was_stopped_for_a_while_goes_on(house, ears):
    house.write({"s": entry(ears)}, startup_wait=20)
    async with serving(house.folder, house.config, command=lambda: [str(STANDING)]) as daemon:
        await daemon.logged("socket.listening")
        pid = house.pid
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T")
        await anyio.sleep(2.5)  # more than the patience: there is nothing to wait for
        os.kill(pid, signal.SIGCONT)
        await anyio.sleep(0.5)
        assert daemon.process.returncode is None
        assert house.status()["daemon"]["pid"] == pid
        assert not [line for line in daemon.log if line["event"] == "loop.stands"]

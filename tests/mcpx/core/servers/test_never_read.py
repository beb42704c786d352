"""A request that the dead server never read was not sent: it is sent again, whatever its tool says."""

from __future__ import annotations

import os
import signal

import anyio
import pytest

from mcpx.parts import open_hub
from tests.mcpx.scripted import config_of, entry
from tests.mcpx.serving import is_stopped


@pytest.mark.anyio
@pytest.mark.linux("what a pipe still holds")
async def test_what_a_frozen_server_has_not_read_is_sent_to_the_next_one(tmp_path):
    counted = tmp_path / "counted"
    steps = [{"append": str(counted), "line": "x"}, {"say": "counted"}]
    server = entry(offers={"tools": ["count"]}, answers={"tools/call count": steps})
    with anyio.fail_after(50):
        async with open_hub(config_of({"c": server})) as hub:
            assert await hub.settled(50)
            await hub.calls.exec("c", "count", {})
            upstream = hub.upstreams["c"]
            frozen = upstream.pid
            os.kill(frozen, signal.SIGSTOP)
            while not is_stopped(frozen):
                await anyio.lowlevel.checkpoint()
            answered = []

            async def call():
                answered.append(await hub.calls.exec("c", "count", {}))

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(call)
                while upstream.counters.in_flight < 5:
                    await anyio.lowlevel.checkpoint()
                os.kill(frozen, signal.SIGKILL)
            assert len(answered) == 5
            assert not any(result.is_error for result in answered)
            assert upstream.pid != frozen
            assert counted.read_text() == "x\n" * 6

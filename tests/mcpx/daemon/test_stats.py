"""The tokens that a daemon has counted: asked of it, left in the file at its end, and found there again."""

from __future__ import annotations

import json
import os
import signal

import anyio
import pytest

from mcpx.core.stats_file import StatsFile
from tests.mcpx.daemon.daemons import until
from tests.mcpx.scripted import entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
ECHO = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "some words " * 50}}


async def asked(house):
    done = await anyio.to_thread.run_sync(house.run, "stats", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def test_counts_survive_the_daemon(house):
    house.write({"s": entry()})
    async with house.attached() as client:
        await client.initialize()
        await client.request("tools/list")
        for _ in range(3):
            await client.call("exec", **ECHO)
        running = await asked(house)
    rows = {row["tool"]: row for row in running["all_time"]["tools"]}
    assert running["since_start"] == running["all_time"]
    assert [row["client"] for row in running["all_time"]["clients"]] == ["test"]
    assert set(rows) == {"(menu)", "echo"}
    assert rows["echo"]["calls"] == 3
    assert rows["echo"]["direct"] == rows["echo"]["spent"] > 100
    assert rows["(menu)"]["spent"] > 100

    os.kill(house.pid, signal.SIGTERM)
    await until(lambda: house.pid is None)
    ended = await asked(house)
    assert ended["all_time"] == running["all_time"]
    assert ended["since_start"] is None
    path = house.place.log.parent
    assert StatsFile(path).read().total.calls == 3

    async with house.attached() as client:
        await client.initialize()
        await client.call("exec", **ECHO)
        again = await asked(house)
    assert again["since_start"]["total"]["calls"] == 1
    assert again["all_time"]["total"]["calls"] == 4

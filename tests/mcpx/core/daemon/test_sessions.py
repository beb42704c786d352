"""Servers with a session for each client, behind one daemon with several."""

from __future__ import annotations

import pytest

from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import alive_in_group, end_group

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
COUNT = {"tool_name": "count", "arguments": {}}


async def process(client, ears, server):
    """The process that serves this client's calls to that server."""
    result = await client.call("exec", server_name=server, **COUNT)
    assert result["isError"] is False, result
    return ears.of("call", tool="count")[-1]["pid"]


async def test_two_shims_share_one_server_and_have_one_each_of_another(house, ears):
    servers = {"shared": entry(ears), "own": entry(ears, settings={"sessions": "per_client"})}
    house.write(servers, startup_wait=20)
    async with house.attached() as one, house.attached() as two:
        for client in (one, two):
            await client.initialize()
            await client.request("tools/list")
        assert len(ears.of("started")) == 2  # nobody has called anything
        shared = {await process(client, ears, "shared") for client in (one, two, one)}
        own = [await process(client, ears, "own") for client in (one, two, one, two)]
        assert len(shared) == 1
        assert own[:2] == own[2:]
        assert own[0] != own[1]
        assert len(ears.of("started")) == 4
        row = next(row for row in house.status()["servers"] if row["name"] == "own")
        assert (row["sessions"], row["calls"]) == (2, 4)
        assert row["pid"] not in own  # it gives the catalogue, and belongs to nobody
        end_group(one.process.pid)  # a client that is killed
        await until(lambda: alive_in_group(own[0]) == [])
        assert await process(two, ears, "own") == own[1]
        row = next(row for row in house.status()["servers"] if row["name"] == "own")
        assert row["sessions"] == 1

"""A daemon remembers what was used after a search, if it is asked to, over restarts and on every path."""

from __future__ import annotations

import json
import os
import signal

import pytest

from mcpx.core.events.search_history import FILE_NAME
from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.scripted import entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
SECRET = "Mustermann"


def file_of(house):
    return house.place.log.parent / FILE_NAME


async def search(client, query):
    answer = await client.call("inspect", query=query)
    return answer["content"][0]["text"]


@pytest.mark.parametrize("on", [True, False])
async def test_a_tool_that_was_used_after_a_search_is_named_by_the_next_one(house, tmp_path, on):
    listing = tmp_path / "tools.json"
    listing.write_text(json.dumps([{"name": "rainfall", "inputSchema": {"type": "object"}}]))
    house.write({"s": entry(), "w": entry(tools=str(listing))}, search_history=on)
    async with house.attached() as client:
        await client.initialize()
        assert "s: echo" not in await search(client, f"rainfall at {SECRET}")
        arguments = {"text": "private"}
        await client.call("exec", server_name="s", tool_name="echo", arguments=arguments)
        assert ("echo" in await search(client, "rainfall")) is on
    os.kill(house.pid, signal.SIGTERM)
    await until(lambda: house.pid is None)
    assert file_of(house).exists() is on
    if not on:
        return
    kept = file_of(house).read_text()
    assert "echo" in kept
    assert SECRET.casefold() not in kept.casefold()
    assert "private" not in kept
    async with house.attached() as client:
        await client.initialize()
        assert "echo" in await search(client, "rainfall")

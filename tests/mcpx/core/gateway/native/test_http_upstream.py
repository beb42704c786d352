"""Subscriptions and changed lists of servers behind HTTP: of both eras, over sockets."""

from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.forking.client import Python
from tests.mcpx.core.gateway.native.connecting import arguments, open_gateway
from tests.mcpx.core.gateway.native.listeners import barrier, open_listener
from tests.mcpx.scripted import PATIENCE_S, QUICK, config_of

pytestmark = pytest.mark.anyio

URI = "mcpx://a/note:///full"


@asynccontextmanager
async def over_http(era, ears):
    """The era server on a free port; its entry for the configuration."""
    nowhere = subprocess.DEVNULL
    with Python([sys.executable, *arguments(f"{era}-http", ears)], stdin=nowhere, stdout=nowhere) as process:
        try:
            port = (await ears.hear("listening"))["port"]
            yield {"url": f"http://127.0.0.1:{port}/mcp", "restart": QUICK}
        finally:
            process.terminate()
            with anyio.CancelScope(shield=True), anyio.fail_after(PATIENCE_S):
                await process.ended()


async def test_updates_and_changed_lists_come_through(era, mode, ears):
    async with (
        over_http(era, ears) as server,
        open_gateway(config_of({"a": server})) as mcpx,
        open_listener(mcpx, mode, URI, lists=True) as received,
    ):
        await mcpx.watch.text("touch", {"uri": "note:///full", "text": "new"}, server="a")
        await received.hear(URI)
        await mcpx.watch.text("grow", {"kind": "prompts", "name": "born"}, server="a")
        await received.hear("prompts")
        await barrier(received)
        assert received.events == [URI, "prompts"]
        assert [event["uris"] for event in ears.of("subscribed")] == [["note:///full"]]
        read = await received.client.read_resource(URI, cache_mode="refresh")
        assert read.contents[0].text == "new"

"""A call that its client cancels is cancelled at the server, and no other: every endpoint, both eras."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.live import gateways
from tests.mcpx.core.servers.relay.answering import exec_
from tests.mcpx.scripted import entry

pytestmark = pytest.mark.anyio


async def hang(client: Client, cancelled: anyio.CancelScope, results: list[Any]) -> None:
    with cancelled:
        results.append(await exec_(client, "s", "hang"))


@pytest.mark.parametrize("endpoint", gateways.ENDPOINTS)
async def test_the_call_that_was_cancelled_is_and_the_other_goes_on(endpoint, tmp_path, ears):
    config = gateways.write_config(tmp_path, {"s": entry(ears)}, startup_wait=20)
    transport, _, mode = endpoint.partition("-")
    async with AsyncExitStack() as stack:
        if transport == "stdio":
            one = (await stack.enter_async_context(gateways.open_gateway(endpoint, config))).client
            two = one
        else:
            serving = await stack.enter_async_context(gateways.http_endpoint(config))
            one = await stack.enter_async_context(gateways.http_client(serving, mode=mode))
            two = await stack.enter_async_context(gateways.http_client(serving, mode="legacy"))
        scope, results, others = anyio.CancelScope(), [], []
        with anyio.fail_after(50):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hang, one, scope, results)
                mine = await ears.hear("call", tool="hang", count=1)
                tasks.start_soon(hang, two, anyio.CancelScope(), others)
                await ears.hear("call", tool="hang", count=2)
                scope.cancel()
                assert (await ears.hear("cancelled"))["id"] == mine["id"]
                await exec_(two, "s", "release")
        assert results == []
        assert [result.content[0].text for result in others] == ["released"]
        assert len(ears.of("cancelled")) == 1

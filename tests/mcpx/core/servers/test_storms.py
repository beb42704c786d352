"""A server that floods MCPX with notifications under a call without an end can still be left."""

from __future__ import annotations

import time

import anyio
import pytest

from tests.mcpx.core.servers.raw import raw_server
from tests.mcpx.scripted import soon

pytestmark = pytest.mark.anyio

LEAVES_S = 5.0  # with the grace of 0.2 s that tests have; it was never before


@pytest.mark.parametrize(
    "method",
    ["notifications/tools/list_changed", "notifications/resources/updated", "notifications/progress", "x/y"],
)
async def test_a_storm_under_a_call_without_an_end_holds_no_shutdown(method, tmp_path):
    script = {"answers": {"tools/call": "silent"}, "storm": 100_000, "storms": method}
    async with anyio.create_task_group() as tasks:
        async with raw_server(tmp_path, **script) as watch:
            tasks.start_soon(watch.outcome, "echo", {})
            upstream = watch.hub.upstreams["s"]
            await soon(lambda: upstream.counters.in_flight)
            await anyio.sleep(0.5)  # let the storm rise
            began = time.monotonic()
        assert time.monotonic() - began < LEAVES_S
        tasks.cancel_scope.cancel()

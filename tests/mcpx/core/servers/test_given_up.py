"""When a server is given up: one that is away for a redeploy is not, one whose setup is wrong is at once."""

from __future__ import annotations

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.status_snapshot import server_status
from mcpx.core.events.stats import Count
from tests.faults.stage_http import WickedProcess
from tests.mcpx.scripted import config_of, entry, open_watched

pytestmark = pytest.mark.anyio
PARK_AFTER = 3
RESTART = {"initial": 40, "park_after": PARK_AFTER}  # its patience is the pause after the second failure


async def test_a_server_that_is_away_for_a_redeploy_is_not_parked_though_it_is_called_all_the_time():
    server = WickedProcess({"era": "legacy", "rule": None})
    await server.start()
    url = f"http://127.0.0.1:{server.options['port']}/mcp"
    config = config_of({"w": {"type": "http", "url": url, "restart": RESTART}}, start="eager")
    try:
        async with open_watched(config) as watch:
            assert await watch.text("echo", server="w")
            await server.kill()
            async with anyio.create_task_group() as tasks:

                async def call_on():
                    while True:  # somebody waits for it all the time
                        await watch.text("echo", server="w")

                for _ in range(3):
                    tasks.start_soon(call_on)
                await watch.until(lambda: watch.hub.supervisor.state("w").generation > PARK_AFTER + 1)
                assert watch.state("w") is not State.PARKED
                await server.start()
                await watch.text("echo", server="w")
                tasks.cancel_scope.cancel()
            assert watch.state("w") is State.READY
    finally:
        await server.kill()


async def test_a_server_that_says_the_same_at_each_start_is_not_started_again_and_again():
    broken = {
        "command": "/bin/sh",
        "args": ["-c", "echo $$ $(date +%s%N): WEATHER_API_KEY is required >&2; exit 1"],
    }
    async with open_watched(config_of({"s": broken, "fine": entry()}, start="eager")) as watch:
        await watch.becomes(State.PARKED, "s")
        status = server_status(watch.hub.upstreams["s"], Count())
        assert (status.failures, status.restarts) == (3, 0)
        assert "it ends in the same way at each start" in status.last_error
        assert "WEATHER_API_KEY is required" in status.last_error
        said = str(await watch.failure("echo", server="s"))  # a call has tried once more
        assert "A call from " in said
        assert "s on tries again" in said
        refused = await watch.failure("echo", server="s")
        assert 0 < refused.details["retry_in_s"] <= 10
        assert server_status(watch.hub.upstreams["s"], Count()).next_attempt_in_s > 300

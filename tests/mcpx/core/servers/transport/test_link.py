from __future__ import annotations

import anyio
import pytest

from mcpx.core.servers.transport.link import Ending


@pytest.mark.anyio
async def test_the_first_reason_counts_and_is_what_a_waiter_gets():
    ending, reasons = Ending(), []

    async def wait():
        reasons.append(await ending.wait())

    assert not ending.happened
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        ending.set("killed")
        ending.set("closed")
    assert ending.happened
    assert reasons == ["killed"]
    assert await ending.wait() == "killed"

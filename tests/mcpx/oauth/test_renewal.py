"""Work that many wait for: done once, to its end, whoever leaves."""

from __future__ import annotations

import anyio
import pytest

from mcpx.oauth.renewal import Background, Flight

pytestmark = pytest.mark.anyio


class Work:
    def __init__(self):
        self.begun, self.done, self.gate = 0, 0, anyio.Event()

    async def __call__(self):
        self.begun += 1
        await self.gate.wait()
        self.done += 1


async def test_all_wait_for_one_flight_and_the_next_is_another():
    work, flight = Work(), Flight(Background())
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(flight.join, work)
        await anyio.wait_all_tasks_blocked()
        work.gate.set()
    assert (work.begun, work.done) == (1, 1)
    await flight.join(work)
    assert work.done == 2


async def test_one_that_nobody_waits_for_any_more_goes_on_in_the_background():
    work, background = Work(), Background()
    flight = Flight(background)
    async with anyio.create_task_group() as background.tasks:
        with anyio.move_on_after(0):
            await flight.join(work)
        await anyio.wait_all_tasks_blocked()
        assert (work.begun, work.done) == (1, 0)
        work.gate.set()
        await flight.join(work)
    assert (work.begun, work.done) == (1, 1)


async def test_a_background_that_is_cancelled_waits_for_the_end():
    work, background = Work(), Background()
    async with anyio.create_task_group() as tasks:
        background.tasks = tasks
        with anyio.move_on_after(0):
            await Flight(background).join(work)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        work.gate.set()
    assert work.done == 1

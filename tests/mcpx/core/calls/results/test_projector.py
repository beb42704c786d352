"""Projections that are not cheap: in a process, which is ended when it takes too long."""

from __future__ import annotations

import json

import anyio
import pytest

from mcpx.core.calls.results import large
from mcpx.core.calls.results.large import NoTurn, Projector
from mcpx.core.protocol.context import ClientId
from mcpx.core.rendering import projection
from mcpx.core.rendering.projection import BadExpression, project
from mcpx.core.wire.workers.pool import MAX_LONG, WorkerPool
from tests.mcpx.scripted import soon

pytestmark = pytest.mark.anyio
BOUNDLESS = "|".join(["[@, @]"] * 60)
ENDLESS = "sort_by(items, &join(',', map(&to_string(@), [" + ", ".join(["@"] * 300) + "])))"
LARGE = json.dumps({"items": [{"id": n, "title": f"t{n}"} for n in range(20_000)]})


@pytest.fixture
async def pool():
    made = WorkerPool()
    yield made
    made.close()


async def test_a_large_result_gives_what_a_small_one_would(pool):
    made = Projector(pool)
    with anyio.fail_after(50):
        for expression in ("items[-2:].id", "nope", "sort_by(items, &nope)"):
            assert await made.project(expression, [LARGE]) == project(expression, [LARGE])


async def test_what_never_ends_is_ended(pool, monkeypatch):
    monkeypatch.setattr(projection, "DEADLINE_S", 0.5)
    with anyio.fail_after(50):
        found = await Projector(pool).project(BOUNDLESS, ["[]"])
    assert "it took over 0.5 s" in found.problem or "too much memory" in found.problem


async def test_a_caller_that_leaves_takes_its_process_along(pool):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Projector(pool).project, ENDLESS, [LARGE])
        await soon(lambda: any(worker.job for worker in pool.workers))
        busy = next(worker.popen for worker in pool.workers if worker.job)
        tasks.cancel_scope.cancel()
    await soon(lambda: busy.poll() is not None)


async def test_a_wrong_expression_starts_no_process(pool):
    with pytest.raises(BadExpression):
        await Projector(pool).project("items[", [LARGE])
    assert not pool.workers


async def test_slow_expressions_of_one_client_do_not_hold_another_ones(pool):
    greedy, other, order = ClientId(), ClientId(), []

    async def select(expression, client):
        await Projector(pool).project(expression, [LARGE], client)
        order.append(client)

    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(select, ENDLESS, greedy)
            await soon(lambda: any(worker.job for worker in pool.workers))
            await select("items[-2:].id", other)
            tasks.cancel_scope.cancel()
    assert order.index(other) <= 1  # one turn of the greedy one may have ended before


async def test_a_projection_gets_less_time_while_others_wait_for_a_process(pool, monkeypatch):
    monkeypatch.setattr(large, "SHARED_DEADLINE_S", 1.0)
    found = {}

    async def select(name, expression):
        found[name] = await Projector(pool).project(expression, [LARGE], ClientId())

    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            for name in "ab":
                tasks.start_soon(select, name, ENDLESS)
            await soon(lambda: sum(worker.job is not None for worker in pool.workers) == MAX_LONG)
            await select("c", "items[-1].id")
            tasks.cancel_scope.cancel()
    assert found["c"].value == b"19999"


async def test_who_waits_too_long_for_a_turn_is_told(pool):
    client = ClientId()
    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Projector(pool).project, ENDLESS, [LARGE], client)
            await soon(lambda: any(worker.job for worker in pool.workers))
            with pytest.raises(NoTurn, match=r"no process was free in 0\.2 s"):
                await Projector(pool).project("items[-1].id", [LARGE], client, patience_s=0.2)
            tasks.cancel_scope.cancel()

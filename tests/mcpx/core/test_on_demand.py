"""Servers that are started when somebody needs them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest

from mcpx.catalog.model import State
from mcpx.core.status import snapshot
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.scripted import PATIENCE_S, Gate, config_of, entry, one_server, open_watched, soon
from tests.mcpx.serving import alive_in_group

pytestmark = pytest.mark.anyio
ON_DEMAND = {"start": "on_demand"}
RESOURCE = {"uri": "memo://a", "name": "a", "mimeType": "text/plain", "description": "Known.", "text": "A"}


@asynccontextmanager
async def asleep(ears, *, settings=None, **script):
    """A hub with one server, which has listed what it offers and is asleep."""
    async with one_server(ears, settings={**ON_DEMAND, **(settings or {})}, **script) as watch:
        await watch.becomes(State.ASLEEP)
        await soon(lambda: watch.hub.upstreams["s"].pid is None)
        yield watch


async def test_a_server_that_is_not_remembered_is_started_to_list_and_then_sleeps(ears):
    async with asleep(ears) as watch:
        pid = ears.of("started")[0]["pid"]
        await soon(lambda: not alive_in_group(pid))
        status = snapshot(watch.hub, clients=0).servers[0]
        assert (status.state, status.pid, status.last_error) == ("asleep", None, None)
        assert status.tools > 5
        assert await watch.hub.settled(0)


async def test_a_call_starts_it_and_it_stays(ears):
    announced = []
    async with asleep(ears) as watch:
        watch.hub.observe(lambda name, diff: announced.append(name))
        assert await watch.text("echo", {"text": "awake"}) == "awake"
        assert watch.state() is State.READY
        assert await watch.text("echo", {"text": "still"}) == "still"
        assert len(ears.of("started")) == 2
        status = snapshot(watch.hub, clients=0).servers[0]
        assert (status.restarts, status.failures, status.calls) == (0, 0, 2)
    assert announced == []  # nothing has changed


async def test_calls_that_come_together_start_it_once(ears):
    async with asleep(ears) as watch, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(watch.text, "echo", {"text": "x"})
    assert len(ears.of("started")) == 2


async def test_a_read_starts_it(ears):
    async with asleep(ears, resources=[RESOURCE]) as watch:
        assert await watch.hub.registry.read_resource("s", "memo://a") == "A"


async def test_a_subscription_starts_it(ears):
    async with asleep(ears, resources=[RESOURCE]) as watch:
        with pytest.raises(CallError) as refused, anyio.fail_after(PATIENCE_S):
            await watch.hub.upstreams["s"].subscriptions.subscribe("memo://a", lambda _uri: None)
        assert refused.value.code is Code.UPSTREAM_ERROR  # said by the server, which has no subscriptions
        assert watch.state() is State.READY


async def test_the_time_that_a_call_waits_counts_from_readiness(ears, tmp_path):
    with Gate(tmp_path / "gate") as gate:
        limits = {"queue_timeout": 0.2}
        servers = {
            "s": entry(ears, settings=ON_DEMAND | limits, gate=str(gate.path)),
            "clock": entry(settings=limits, silent=True),
        }
        async with open_watched(config_of(servers), settled=False) as watch:
            gate.let_one_through()
            await watch.becomes(State.ASLEEP)
            answers = []

            async def call():
                answers.append(await watch.text("echo", {"text": "at last"}))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                tasks.start_soon(call)
                await ears.hear("started", count=2)
                for _ in range(2):  # the time runs out for those who wait for another server, twice
                    late = await watch.failure("echo", {"text": "x"}, server="clock")
                    assert late.code is Code.SERVER_UNAVAILABLE
                assert answers == []
                gate.let_one_through()
            assert answers == ["at last"] * 2


async def test_one_that_starts_no_more_fails_its_callers_with_the_cause(ears, tmp_path):
    wanted = tmp_path / "wanted"
    wanted.touch()
    once = {"restart": {"park_after": 1, "park_probe": 1000}}
    async with asleep(ears, settings=once, wants=str(wanted)) as watch:
        wanted.unlink()
        error = await watch.failure("echo", {"text": "x"})
        assert (error.code, error.outcome) == (Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT)
        assert "the file that I want is missing" in str(error)
        assert watch.state() is State.PARKED
        wanted.touch()
        assert await watch.text("echo", {"text": "back"}) == "back"


async def test_what_is_looked_at_is_started_beforehand(ears):
    async with asleep(ears) as watch:
        listed = await watch.hub.calls.inspect("s")
        assert listed.structured_content["state"] == "asleep"
        assert watch.state() is State.ASLEEP  # a list of tools is not yet a use
        shown = await watch.hub.calls.inspect("s", "echo")
        assert "asleep" not in shown.content[0]["text"]
        await watch.becomes(State.READY)
        assert len(ears.of("started")) == 2


async def test_a_search_starts_the_servers_whose_tools_it_shows(ears):
    async with asleep(ears) as watch:
        found = await watch.hub.calls.inspect(query="a line of bytes")
        assert "asleep" not in found.content[0]["text"]
        await watch.becomes(State.READY)


async def test_it_can_be_started_by_hand(ears):
    async with asleep(ears) as watch:
        info = await watch.hub.restart("s")
        assert info.state is State.READY
        assert len(ears.of("started")) == 2


async def test_a_changed_entry_of_one_that_sleeps_is_not_what_was_known(ears):
    async with asleep(ears) as watch:
        changed = entry(ears, settings=ON_DEMAND | {"env": {"VARIANT": "other"}})
        await watch.hub.reload(config_of({"s": changed}))
        await ears.hear("started", count=2)  # to list
        await watch.becomes(State.ASLEEP)
        assert await watch.text("echo", {"text": "new"}) == "new"

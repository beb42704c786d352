"""Servers that are started when somebody needs them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest

from mcpx.app import _describe
from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.status_snapshot import snapshot
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
        assert _describe(watch.hub) == "0 of 1 servers ready, 1 asleep"


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


# --- what is remembered from last time


@asynccontextmanager
async def remembered(ears, *, settings=None, **script):
    """A hub with one server that an earlier hub has listed."""
    async with one_server(ears, settings=settings, **script):
        pass
    assert len(ears.of("started")) == 1
    async with one_server(ears, settings=settings, **script) as watch:
        yield watch


async def test_a_server_that_is_remembered_is_not_started(ears):
    announced = []
    async with remembered(ears) as watch:
        watch.hub.observe(lambda name, diff: announced.append(name))
        assert watch.state() is State.ASLEEP
        assert "echo" in watch.hub.upstreams["s"].info().tools
        assert len(ears.of("started")) == 1
        assert await watch.text("echo", {"text": "awake"}) == "awake"
        assert len(ears.of("started")) == 2
    assert announced == []


@pytest.mark.parametrize(
    ("settings", "state"),
    [
        ({"start": "eager"}, State.READY),
        ({"remembered_for": 1e-6}, State.READY),
        ({"remembered_for": 1e-6, "start": "on_demand"}, State.ASLEEP),
    ],
)
async def test_the_entry_says_which_of_them_are_started_with_mcpx(ears, settings, state):
    async with remembered(ears, settings=settings) as watch:
        assert watch.state() is state
        assert len(ears.of("started")) == (2 if state is State.READY else 1)


async def test_a_call_that_waits_for_the_start_goes_before_what_nobody_waits_for(ears, tmp_path):
    with Gate(tmp_path / "gate") as gate:
        gated = {name: entry(ears, settings={"env": {"N": name}}, gate=str(gate.path)) for name in "abc"}
        for _ in gated:
            gate.let_one_through()
        async with open_watched(config_of(gated, max_starting=1)) as watch:
            pass
        async with open_watched(config_of(gated, max_starting=1)) as watch:
            for name in "ab":
                watch.hub.upstreams[name].warm()
            await ears.hear("started", count=4)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: watch.text("echo", {"text": "first"}, server="c"))
                await ears.hear("started", count=5)  # at once, beside the warm-up of another
                assert [watch.hub.upstreams[name].pid is None for name in "abc"] == [False, True, False]
                for _ in gated:
                    gate.let_one_through()


async def test_a_changed_entry_of_one_that_sleeps_is_not_started_where_it_is_remembered_too(ears):
    other = {"env": {"VARIANT": "other"}}
    async with one_server(ears, settings=other):
        pass
    async with remembered_beside(ears) as watch:
        assert watch.state() is State.ASLEEP
        plan = await watch.hub.reload(config_of({"s": entry(ears, settings=other)}))
        assert plan.changed == ("s",)
        assert watch.state() is State.ASLEEP
        assert "echo" in watch.hub.upstreams["s"].info().tools
        assert len(ears.of("started")) == 2
        await watch.hub.reload(config_of({"s": entry(ears, settings={"env": {"VARIANT": "unknown"}})}))
        await watch.becomes(State.READY)
        await watch.hub.reload(config_of({"s": entry(ears, settings=other)}))
        await watch.becomes(State.READY)  # the one before was in use
        assert len(ears.of("started")) == 4


@asynccontextmanager
async def remembered_beside(ears):
    """As `remembered`, where another server is remembered too."""
    async with one_server(ears):
        pass
    async with one_server(ears) as watch:
        yield watch

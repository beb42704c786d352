"""The hub as a whole: settling, observers, and an end that leaves nothing."""

from __future__ import annotations

import time

import anyio
import pytest

from mcpx.catalog.snapshot import State
from mcpx.errors import Code
from tests.mcpx.scripted import config_of, entry, one_server, open_watched
from tests.mcpx.serving import alive_in_group

pytestmark = pytest.mark.anyio


async def test_it_is_settled_when_every_server_is_ready_or_has_failed_once():
    servers = {"s": entry(), "none": {"command": "there-is-no-such-command"}, "exits": entry(exit=1)}
    async with open_watched(config_of(servers), settled=False) as watch:
        assert await watch.hub.settled(15)
        assert watch.state() is State.READY
        assert watch.state("none") is State.PARKED


async def test_without_a_server_to_start_it_is_settled_at_once():
    servers = {"off": {**entry(), "disabled": True}}
    async with open_watched(config_of(servers), settled=False) as watch:
        assert await watch.hub.settled(0.5)
        error = await watch.failure("echo", server="off")
        assert error.code is Code.SERVER_UNAVAILABLE
        assert "is switched off" in str(error)


async def test_settling_takes_no_longer_than_it_may():
    async with one_server(settled=False, silent=True) as watch:
        began = time.monotonic()
        assert await watch.hub.settled(0.1) is False
        assert time.monotonic() - began < 2


async def test_an_observer_hears_no_more_after_it_said_so():
    async with one_server() as watch:
        first, second = [], []
        watch.hub.observe(lambda name, _diff: first.append(name))
        end = watch.hub.observe(lambda name, _diff: second.append(name))
        await watch.text("add", {"name": "one"})
        await watch.until(lambda: watch.hub.registry.get_tool("s", "one") is not None)
        end()
        await watch.text("add", {"name": "two"})
        await watch.until(lambda: watch.hub.registry.get_tool("s", "two") is not None)
        assert (first, second) == (["s", "s"], ["s"])


async def test_when_it_ends_no_process_of_any_server_is_left(ears):
    servers = {
        "good": entry(ears),
        "stubborn": entry(ears, stubborn=True),
        "parent": entry(ears, grandchild=True),
    }
    began = 0.0
    async with open_watched(config_of(servers)):
        groups = [event["pid"] for event in ears.of("started")]
        assert len(groups) == 3
        assert all(alive_in_group(group) for group in groups)
        began = time.monotonic()
    assert time.monotonic() - began < 6
    assert [alive_in_group(group) for group in groups] == [[], [], []]


async def test_a_call_that_runs_past_the_grace_time_is_told_that_the_session_was_closed(ears):
    codes = []
    async with anyio.create_task_group() as tasks, one_server(ears) as watch:

        async def call() -> None:
            codes.append(await watch.outcome("hang"))

        tasks.start_soon(call)
        await ears.hear("call", tool="hang")
    assert codes == [Code.SERVER_DIED]


async def test_fifty_servers_come_up_and_go(ears):
    servers = {f"s{number}": entry(ears) for number in range(50)}
    async with open_watched(config_of(servers)) as watch:
        assert {info.state for info in watch.hub.registry.list_servers()} == {State.READY}
        assert await watch.text("echo", {"text": "x"}, server="s49") == "x"
    assert [event["pid"] for event in ears.of("started") if alive_in_group(event["pid"])] == []

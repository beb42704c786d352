"""A server that answers is healthy: an answered call forgets the failures before it, at default settings."""

from __future__ import annotations

import os
import signal

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.errors import Code
from tests.mcpx.core.servers.raw import initialize, raw_server, refusal, result
from tests.mcpx.scripted import one_server, soon

pytestmark = pytest.mark.anyio

DEFAULTS = {"restart": {}}


async def kill(watch) -> None:
    """Kill the server; it is back without having been anything but starting in between."""
    upstream = watch.hub.upstreams["s"]
    generation = upstream.queue.lifecycle().generation
    os.kill(upstream.pid, signal.SIGKILL)
    await watch.until(lambda: upstream.queue.lifecycle().generation > generation)
    assert watch.state() is State.STARTING
    await watch.leaves(State.STARTING)
    assert watch.state() is State.READY


async def test_twenty_kills_with_an_answered_call_between_each_leave_it_ready_at_once():
    async with one_server(settings=DEFAULTS) as watch:
        for _ in range(20):
            assert await watch.text("echo", {"text": "well"}) == "well"
            assert watch.hub.upstreams["s"].queue.lifecycle().failures == 0
            await kill(watch)
        assert await watch.text("echo", {"text": "well"}) == "well"


async def test_an_error_of_the_servers_own_is_an_answer_too():
    async with one_server(settings=DEFAULTS) as watch:
        for _ in range(3):
            assert (await watch.failure("fail", {"text": "no"})).code is Code.UPSTREAM_ERROR
            await kill(watch)


async def test_so_is_the_text_of_a_resource():
    resources = [{"uri": "a:1", "name": "one", "text": "hello"}]
    async with one_server(settings=DEFAULTS, resources=resources) as watch:
        for _ in range(3):
            await watch.hub.registry.read_resource("s", "a:1")
            await kill(watch)


async def test_a_tool_that_kills_its_server_at_each_call_leads_to_growing_pauses():
    settings = {"restart": {"initial": 0.2, "cap": 60, "park_after": 4, "park_probe": 60}}
    async with one_server(settings=settings) as watch:
        for failures in (1, 2, 3):
            assert (await watch.failure("die")).code is Code.SERVER_DIED
            await soon(lambda: watch.hub.upstreams["s"].queue.lifecycle().failures == failures)  # noqa: B023
        assert (await watch.failure("die")).code is Code.SERVER_DIED
        await watch.becomes(State.PARKED)


async def test_what_mcpx_reads_for_itself_proves_nothing(tmp_path):
    """Digests of resources that clients subscribe to are read in every incarnation."""
    answers = {
        "initialize": initialize(capabilities={"tools": {}, "resources": {"subscribe": True}}),
        "resources/list": result('{"resources":[{"uri":"a:1","name":"one"}]}'),
        "resources/subscribe": result("{}"),
        "resources/read": result('{"contents":[{"uri":"a:1","text":"hello"}]}'),
        "prompts/list": refusal(-32601),
    }
    async with raw_server(tmp_path, answers=answers) as watch:
        upstream = watch.hub.upstreams["s"]
        await upstream.subscriptions.subscribe("a:1", lambda _uri: None)
        ears = tmp_path / "s.ears"
        for failures in (1, 2):
            await soon(lambda: ears.read_text().count("resources/read") >= failures)  # noqa: B023
            os.kill(upstream.pid, signal.SIGKILL)
            await watch.leaves(State.READY)
            assert upstream.queue.lifecycle().failures == failures
            await watch.becomes(State.READY)

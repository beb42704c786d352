"""Servers that sleep: their lists are shown, and every kind of request starts them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from mcp_types import PromptReference

from mcpx.core.catalog.snapshot import State
from tests.mcpx import scripted
from tests.mcpx.core.gateway.native.connecting import entry, open_gateway
from tests.mcpx.core.gateway.native.listeners import open_listener
from tests.mcpx.scripted import config_of

pytestmark = pytest.mark.anyio
FULL, PROMPT = "mcpx://a/note:///full", "a__brief.the/team"


@pytest.fixture
async def asleep(era, ears):
    """A gateway over one server, which an earlier one has listed."""
    config = config_of({"a": entry(era, ears)}, expose="both")
    async with open_gateway(config):
        pass
    async with open_gateway(config) as running:
        yield running


@asynccontextmanager
async def woken(mcpx):
    """The server is asleep at first, and ready in the end."""
    assert mcpx.watch.state("a") is State.ASLEEP
    yield
    assert mcpx.watch.state("a") is State.READY


async def test_lists_leave_it_asleep(asleep, mode):
    async with asleep.client(mode) as client:
        assert "a__touch" in {tool.name for tool in (await client.list_tools()).tools}
        assert FULL in {str(resource.uri) for resource in (await client.list_resources()).resources}
        assert (await client.list_prompts()).prompts
        assert (await client.list_resource_templates()).resource_templates
        listed = await client.call_tool("inspect", {"server_name": "a"})
        assert not listed.is_error
    assert asleep.watch.state("a") is State.ASLEEP


async def test_a_native_tool_wakes_it(asleep, mode):
    async with asleep.client(mode) as client, woken(asleep):
        await client.call_tool("a__touch", {"uri": "note:///full", "text": "new"})
        called = await client.call_tool("exec", {"server_name": "a", "tool_name": "touch", "arguments": {}})
        assert called is not None


async def test_a_read_wakes_it(asleep, mode):
    async with asleep.client(mode) as client, woken(asleep):
        assert (await client.read_resource(FULL)).contents


async def test_a_prompt_wakes_it(asleep, mode):
    async with asleep.client(mode) as client, woken(asleep):
        name = (await client.list_prompts()).prompts[0].name
        assert (await client.get_prompt(name, {"who": "you"})).messages


async def test_a_completion_wakes_it(asleep, mode):
    async with asleep.client(mode) as client, woken(asleep):
        name = (await client.list_prompts()).prompts[0].name
        done = await client.complete(PromptReference(name=name), {"name": "who", "value": "y"})
        assert done.completion.values


async def test_a_subscription_wakes_it(asleep, mode):
    async with woken(asleep), open_listener(asleep, mode, FULL) as listener:
        await asleep.watch.text("touch", {"uri": "note:///full", "text": "new"}, server="a")
        await listener.hear(FULL)


async def test_an_idle_server_sleeps_when_its_last_subscriber_has_left(era, mode, ears):
    short = {"idle_stop": 0.2}
    config = config_of({"a": entry(era, ears, **short), "clock": scripted.entry(settings=short)})
    async with open_gateway(config) as mcpx:
        async with open_listener(mcpx, mode, FULL):
            for _ in range(2):
                await mcpx.watch.becomes(State.ASLEEP, "clock")
                await mcpx.watch.text("echo", {"text": "x"}, server="clock")
            assert mcpx.watch.state("a") is State.READY
        await mcpx.watch.becomes(State.ASLEEP, "a")

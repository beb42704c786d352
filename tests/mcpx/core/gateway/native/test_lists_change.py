"""Changed lists: announced to every client once a list really differs, the right list, a burst as one."""

from __future__ import annotations

import anyio
import pytest

from mcpx.core.gateway.clients.tool_lists import ListChange
from tests.mcpx.core.gateway.native.connecting import entry, open_gateway
from tests.mcpx.core.gateway.native.listeners import ReceivedEvents, barrier, open_listener
from tests.mcpx.scripted import PATIENCE_S, config_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def mcpx(era, ears):
    async with open_gateway(config_of({"a": entry(era, ears)})) as running:
        yield running


async def change(mcpx, tool: str, **arguments) -> None:
    await mcpx.watch.text(tool, arguments, server="a")


async def all_announced(mcpx, *listeners: ReceivedEvents) -> None:
    """Whatever is to be announced of what the server has said so far: a new tool comes behind it."""
    announced = anyio.Event()

    def look(change: ListChange) -> None:
        if change == "tools" and mcpx.hub.registry.get_tool("a", "last"):
            announced.set()

    unsubscribe = mcpx.server.tool_list.bus.subscribe(look)
    await change(mcpx, "grow", kind="tools", name="last")
    with anyio.fail_after(PATIENCE_S):
        await announced.wait()
    unsubscribe()
    await barrier(*listeners)


async def test_a_new_resource_is_in_the_list_and_announced(mcpx, mode):
    async with open_listener(mcpx, mode, lists=True) as received:
        await change(mcpx, "grow", kind="resources", name="born")
        await received.hear("resources")
        listed = [item.uri for item in (await received.client.list_resources(cache_mode="refresh")).resources]
        assert "mcpx://a/note:///born" in listed
        await received.hear("tools")  # for it stands in a tool's description
        assert sorted(received.events) == ["resources", "tools"]


async def test_a_new_prompt_is_in_the_list_and_announced(mcpx, mode):
    async with open_listener(mcpx, mode, lists=True) as received:
        await change(mcpx, "grow", kind="prompts", name="born")
        await received.hear("prompts")
        listed = [item.name for item in (await received.client.list_prompts(cache_mode="refresh")).prompts]
        assert "a.born" in listed
        await barrier(received)
        assert received.events == ["prompts"]


async def test_a_new_tool_is_announced_as_a_tool_only(mcpx, mode):
    async with open_listener(mcpx, mode, lists=True) as received:
        await change(mcpx, "grow", kind="tools", name="born")
        await received.hear("tools")
        await barrier(received)
        assert received.events == ["tools"]


async def test_a_server_that_says_so_without_a_difference_is_not_passed_on(mcpx, mode, ears):
    async with open_listener(mcpx, mode, lists=True) as received:
        listings = len(ears.of("listed"))
        for kind in ("tools", "resources", "prompts"):
            await change(mcpx, "say", kind=kind)
        await ears.hear("listed", count=listings + 1)
        await all_announced(mcpx, received)
        assert received.events == ["tools"]  # that of the tool which was added to see the end


async def test_a_burst_is_one_announcement(mcpx, mode, ears):
    async with open_listener(mcpx, mode, lists=True) as received:
        for number in range(50):
            await change(mcpx, "grow", kind="prompts", name=f"n{number}")
        await received.hear("prompts")
        await all_announced(mcpx, received)
        assert received.events.count("prompts") <= 5
        assert set(received.events) == {"prompts", "tools"}
        assert len((await received.client.list_prompts(cache_mode="refresh")).prompts) == 51


async def test_a_stream_is_told_only_what_it_asked_for(mcpx):
    async with (
        open_listener(mcpx, "modern") as nothing,
        open_listener(mcpx, "modern", lists=True) as received,
    ):
        await change(mcpx, "grow", kind="resources", name="born")
        await received.hear("resources")
        await barrier(nothing)
        assert nothing.events == []


async def test_a_server_that_is_not_offered_natively_changes_no_native_list(ears, mode):
    config = config_of({"a": entry("both", ears, native=False), "b": entry("both", ears)})
    async with open_gateway(config) as mcpx, open_listener(mcpx, mode, lists=True) as received:
        await change(mcpx, "grow", kind="prompts", name="born")
        await change(mcpx, "grow", kind="resources", name="born")
        await all_announced(mcpx, received)
        assert set(received.events) == {"tools"}

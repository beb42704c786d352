"""Changed lists: announced to every client once a list really differs, the right list, a burst as one."""

from __future__ import annotations

import anyio
import pytest
from mcp.shared.subscriptions import ToolsListChanged

from tests.mcpx.gateway.native.behind import behind, entry
from tests.mcpx.gateway.native.listeners import Heard, barrier, listening
from tests.mcpx.scripted import PATIENCE_S, config_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def mcpx(era, ears):
    async with behind(config_of({"a": entry(era, ears)})) as running:
        yield running


async def change(mcpx, tool: str, **arguments) -> None:
    await mcpx.watch.text(tool, arguments, server="a")


async def all_announced(mcpx, *heards: Heard) -> None:
    """Whatever is to be announced of what the server has said so far: a new tool comes behind it."""
    announced = anyio.Event()

    def look(event: object) -> None:
        if isinstance(event, ToolsListChanged) and mcpx.hub.registry.get_tool("a", "last"):
            announced.set()

    unsubscribe = mcpx.clients.bus.subscribe(look)
    await change(mcpx, "grow", kind="tools", name="last")
    with anyio.fail_after(PATIENCE_S):
        await announced.wait()
    unsubscribe()
    await barrier(*heards)


async def test_a_new_resource_is_in_the_list_and_announced(mcpx, mode):
    async with listening(mcpx, mode, lists=True) as heard:
        await change(mcpx, "grow", kind="resources", name="born")
        await heard.hear("resources")
        listed = [item.uri for item in (await heard.client.list_resources(cache_mode="refresh")).resources]
        assert "mcpx://a/note:///born" in listed
        await heard.hear("tools")  # for it stands in a tool's description
        assert sorted(heard.events) == ["resources", "tools"]


async def test_a_new_prompt_is_in_the_list_and_announced(mcpx, mode):
    async with listening(mcpx, mode, lists=True) as heard:
        await change(mcpx, "grow", kind="prompts", name="born")
        await heard.hear("prompts")
        listed = [item.name for item in (await heard.client.list_prompts(cache_mode="refresh")).prompts]
        assert "a.born" in listed
        await barrier(heard)
        assert heard.events == ["prompts"]


async def test_a_new_tool_is_announced_as_a_tool_only(mcpx, mode):
    async with listening(mcpx, mode, lists=True) as heard:
        await change(mcpx, "grow", kind="tools", name="born")
        await heard.hear("tools")
        await barrier(heard)
        assert heard.events == ["tools"]


async def test_a_server_that_says_so_without_a_difference_is_not_passed_on(mcpx, mode, ears):
    async with listening(mcpx, mode, lists=True) as heard:
        listings = len(ears.of("listed"))
        for kind in ("tools", "resources", "prompts"):
            await change(mcpx, "say", kind=kind)
        await ears.hear("listed", count=listings + 1)
        await all_announced(mcpx, heard)
        assert heard.events == ["tools"]  # that of the tool which was added to see the end


async def test_a_burst_is_one_announcement(mcpx, mode, ears):
    async with listening(mcpx, mode, lists=True) as heard:
        for number in range(50):
            await change(mcpx, "grow", kind="prompts", name=f"n{number}")
        await heard.hear("prompts")
        await all_announced(mcpx, heard)
        assert heard.events.count("prompts") <= 5
        assert set(heard.events) == {"prompts", "tools"}
        assert len((await heard.client.list_prompts(cache_mode="refresh")).prompts) == 51


async def test_a_stream_is_told_only_what_it_asked_for(mcpx):
    async with listening(mcpx, "modern") as nothing, listening(mcpx, "modern", lists=True) as heard:
        await change(mcpx, "grow", kind="resources", name="born")
        await heard.hear("resources")
        await barrier(nothing)
        assert nothing.events == []


async def test_a_server_that_is_not_offered_natively_changes_no_native_list(ears, mode):
    config = config_of({"a": entry("both", ears, native=False), "b": entry("both", ears)})
    async with behind(config) as mcpx, listening(mcpx, mode, lists=True) as heard:
        await change(mcpx, "grow", kind="prompts", name="born")
        await change(mcpx, "grow", kind="resources", name="born")
        await all_announced(mcpx, heard)
        assert set(heard.events) == {"tools"}

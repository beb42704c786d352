"""The catalogue follows the server: over a reconnect, over list_changed, and through a storm of it."""

from __future__ import annotations

import json
import os
import signal

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.errors import Code
from tests.mcpx.scripted import PATIENCE_S, one_server

pytestmark = pytest.mark.anyio


def tool(name: str, **properties) -> dict:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


@pytest.fixture
def listed(tmp_path):
    """Writes the list of tools that the server reads at each listing."""
    file = tmp_path / "tools.json"

    def write(*tools: dict) -> str:
        file.write_text(json.dumps(tools))
        return str(file)

    return write


async def reconnect(watch) -> None:
    os.kill(watch.hub.upstreams["s"].pid, signal.SIGKILL)
    await watch.leaves(State.READY)
    await watch.becomes(State.READY)


async def test_tools_that_changed_over_a_reconnect_are_in_the_catalogue_and_announced(listed):
    async with one_server(tools=listed(tool("old"), tool("kept"))) as watch:
        told = []
        watch.hub.observe(lambda name, diff: told.append((name, diff.tools)))
        listed(tool("kept"), tool("new"))
        await reconnect(watch)
        assert list(watch.hub.registry.get_server_info("s").tools) == ["kept", "new"]
        assert told == [("s", True)]
        assert (await watch.failure("old")).code is Code.UNKNOWN_TOOL
        assert await watch.text("new") == "nothing"


async def test_a_reconnect_that_changed_nothing_is_not_announced(listed):
    async with one_server(tools=listed(tool("kept"))) as watch:
        told = []
        watch.hub.observe(lambda *change: told.append(change))
        await reconnect(watch)
        assert watch.hub.upstreams["s"].catalogue.generation == 2
        assert told == []


async def test_a_schema_that_changed_over_a_reconnect_is_the_one_that_is_checked(ears, listed):
    async with one_server(ears, tools=listed(tool("t", size={"type": "integer"}))) as watch:
        assert (await watch.failure("t", {"size": "big"})).code is Code.INVALID_ARGUMENTS
        listed(tool("t", size={"type": "string"}))
        await reconnect(watch)
        assert await watch.text("t", {"size": "big"}) == "nothing"
        assert (await watch.failure("t", {"size": 3})).code is Code.INVALID_ARGUMENTS
        assert len(ears.of("call")) == 1


async def test_a_tool_added_while_running_is_listed_and_can_be_called():
    async with one_server() as watch:
        before = watch.hub.upstreams["s"].catalogue
        await watch.text("add", {"name": "wave"})
        await watch.until(lambda: watch.hub.registry.get_tool("s", "wave") is not None)
        assert await watch.text("wave", {"text": "hello"}) == "hello"
        assert "wave" not in before.tools  # replaced whole, never changed
        assert watch.hub.upstreams["s"].queue.lifecycle().generation == 1


async def test_a_thousand_changes_at_once_make_few_listings(ears):
    async with one_server(ears) as watch:
        await watch.text("add", {"name": "last", "times": 1000})
        await watch.until(lambda: watch.hub.registry.get_tool("s", "last") is not None)
        assert watch.hub.upstreams["s"].counters.listings <= 5
        assert len(ears.of("request", method="tools/list")) <= 5


async def test_calls_go_on_during_a_storm_of_changes():
    async with one_server() as watch, anyio.create_task_group() as tasks:
        tasks.start_soon(watch.text, "add", {"name": "last", "times": 1000})
        with anyio.fail_after(PATIENCE_S):
            for _ in range(50):
                assert await watch.text("echo", {"text": "on"}) == "on"

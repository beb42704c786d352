from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from mcpx.core.calls import search_indexing
from mcpx.core.calls.search_indexing import CHARS_PER_TURN, QUIET_S, SearchIndexing
from mcpx.core.catalog.search_index import index_of
from tests.mcpx.core.rendering.snapshots import server, tool

pytestmark = pytest.mark.anyio

PATIENCE_S = 20.0


def long_server(name: str = "long", tools: int = 50):
    return server(name, *(tool(f"tool{n}", "some words " * 50) for n in range(tools)))


async def test_a_search_waits_until_all_has_been_read_and_others_have_their_turns():
    servers = [long_server("a"), long_server("b"), server("c", listed=False)]
    indexing, read, turns = SearchIndexing(lambda: servers), asyncio.Event(), 0
    indexing.when_read(read.set)
    assert not read.is_set()
    while not read.is_set():
        await asyncio.sleep(0)
        turns += 1
    assert all(index_of(one.name, one.catalogue).whole for one in servers[:2])
    assert turns > 2 * 50 * 550 / CHARS_PER_TURN


async def test_what_has_been_read_is_not_waited_for():
    servers = [long_server(tools=1)]
    indexing, first, second = SearchIndexing(lambda: servers), asyncio.Event(), asyncio.Event()
    indexing.when_read(first.set)
    await first.wait()
    indexing.when_read(second.set)
    assert second.is_set()


async def test_what_is_listed_meanwhile_is_read_too():
    servers = [long_server("a")]
    indexing, read = SearchIndexing(lambda: servers), asyncio.Event()
    indexing.when_read(lambda: None)
    await asyncio.sleep(0)
    servers.append(long_server("b"))
    indexing.when_read(read.set)
    await read.wait()
    assert index_of("b", servers[1].catalogue).whole


async def test_it_begins_once_the_catalogues_are_quiet(monkeypatch):
    loop, later = asyncio.get_running_loop(), []
    monkeypatch.setattr(loop, "call_later", lambda *given: later.append(given) or Mock(), raising=False)
    servers = [long_server(tools=1)]
    indexing = SearchIndexing(lambda: servers)
    indexing.start()
    indexing.start()
    assert [seconds for seconds, _ in later] == [QUIET_S, QUIET_S]
    monkeypatch.undo()
    later[-1][1]()
    for _ in range(10):
        await asyncio.sleep(0)
    assert index_of("long", servers[0].catalogue).whole


async def test_an_entry_that_cannot_be_read_costs_itself_alone():
    odd = server("odd", tool("good", "Some words"), tool("bad"), tool("better", "More words"))
    odd.catalogue.tools["bad"] = None  # type: ignore[assignment]
    indexing, read = SearchIndexing(lambda: [odd]), asyncio.Event()
    indexing.when_read(read.set)
    await read.wait()
    assert {"good", "better"} <= set(index_of("odd", odd.catalogue).names)


async def test_a_step_that_fails_leaves_no_search_waiting(monkeypatch):
    def fails() -> None:
        raise RuntimeError("dictionary changed size during iteration")

    monkeypatch.setattr(search_indexing, "load_stemmer", fails)
    servers = [long_server(tools=1)]
    indexing, read = SearchIndexing(lambda: servers), asyncio.Event()
    indexing.when_read(read.set)
    await asyncio.wait_for(read.wait(), PATIENCE_S)
    assert index_of("long", servers[0].catalogue).whole

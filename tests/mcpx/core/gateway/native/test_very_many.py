"""Thousands of resources: read whole upstream, given in pages; and their descriptions, at nobody's cost."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.gateway.native.lists import PAGE_ENTRIES
from mcpx.core.servers.offers.catalogue_cache import MAX_CONCURRENT_READS
from mcpx.core.servers.offers.pages import MAX_PAGES
from mcpx.core.system.endpoint import SETTLED_KEY
from tests.mcpx.core.gateway.native.connecting import open_gateway
from tests.mcpx.scripted import QUICK, config_of

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).with_name("many_server.py")


def many(ears, count: int, page: int, *more: str, **settings) -> dict:
    args = ["-S", "-E", str(SERVER), str(count), str(page), str(ears.path), *more]
    return {"command": sys.executable, "args": args, "restart": QUICK, **settings}


async def test_five_thousand_resources_are_read_whole_and_listed_in_pages(ears, mode):
    config = config_of({"a": many(ears, 5000, 100, auto_describe=False)})
    async with open_gateway(config) as mcpx, mcpx.client(mode) as client:
        assert len(ears.of("listed")) == 50
        assert len(mcpx.hub.registry.list_resources("a")) == 5000
        uris, cursor, pages = [], None, 0
        while True:
            page = await client.list_resources(cursor=cursor)
            uris += [item.uri for item in page.resources]
            pages += 1
            if (cursor := page.next_cursor) is None:
                break
            assert len(page.resources) == PAGE_ENTRIES
        assert uris == [f"mcpx://a/doc:///{n}" for n in range(5000)]
        assert pages == 5
        whole = await client.list_resources(meta={SETTLED_KEY: False})  # as a shim asks
        assert [item.uri for item in whole.resources] == uris
        assert whole.next_cursor is None
        assert len(ears.of("listed")) == 50  # from the catalogue: nothing was asked again


async def test_a_list_of_resources_that_never_ends_is_stopped_and_says_so(ears):
    async with open_gateway(config_of({"a": many(ears, 0, 1, "endless")})) as mcpx:
        assert mcpx.watch.state("a") is State.READY
        assert await mcpx.watch.text("hi", server="a") == "hi"
        (left_out,) = mcpx.hub.upstreams["a"].info().left_out
        assert left_out.kind == "resources/list"
        reason = f"the server's list of resources does not end: stopped after {MAX_PAGES} pages"
        assert left_out.reason == reason
        assert len(ears.of("listed")) == MAX_PAGES


async def test_five_hundred_descriptions_cost_nobody_anything(ears):
    """Ready at once, a few reads at a time, a call in between at once, nothing read twice."""
    started = time.perf_counter()
    async with open_gateway(config_of({"a": many(ears, 500, 100)})) as mcpx:
        ready = time.perf_counter() - started
        assert mcpx.watch.state("a") is State.READY
        assert len(ears.of("read")) < 500  # they go on while the server is ready
        assert await mcpx.watch.text("hi", server="a") == "hi"
        assert len(ears.of("read")) < 500

        def described() -> bool:
            listed = mcpx.hub.registry.list_resources("a")
            return all(item.description == f'begins: "text of {item.uri}"' for item in listed)

        await mcpx.watch.until(described)
        took = time.perf_counter() - started
        assert ready < took / 2, (ready, took)
        reads = [event["uri"] for event in ears.of("read")]
        assert sorted(reads) == sorted(f"doc:///{n}" for n in range(500))
        assert max(event["under_way"] for event in ears.of("read")) <= MAX_CONCURRENT_READS

        listings = mcpx.hub.upstreams["a"].counters.listings
        await mcpx.watch.text("again", server="a")
        await ears.hear("listed", start=400, count=listings + 1)
        os.kill(mcpx.hub.upstreams["a"].pid, signal.SIGKILL)
        await mcpx.watch.leaves(State.READY, "a")
        await mcpx.watch.becomes(State.READY, "a")
        assert described()
        await mcpx.watch.text("hi", server="a")  # whatever was to be read has been asked for before this
        assert len(ears.of("read")) == 500

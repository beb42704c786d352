"""The store of kept results: to whom they belong, how much is kept and for how long."""

from __future__ import annotations

import pytest

from mcpx.core.calls.results.kept import KeptResults
from mcpx.core.protocol.context import SESSIONLESS, ClientId
from tests.mcpx.scripted import soon

pytestmark = pytest.mark.anyio
KB = 1024


def text(kilobytes):
    return "x" * (kilobytes * KB)


async def test_each_client_reads_its_own_and_nothing_else():
    store, one, other = KeptResults(), ClientId(), ClientId()
    kept = store.keep(("a", "b"), one)
    assert store.get(kept.id, one).texts == ("a", "b")
    assert store.get(kept.id, other) is store.get(kept.id, None) is store.get(kept.id, SESSIONLESS) is None


async def test_ids_are_short_for_a_client_and_cannot_be_guessed_where_several_share_them():
    store, client = KeptResults(), ClientId()
    assert len({store.keep(("x",), client).id for _ in range(300)}) == 300
    assert len(store.keep(("x",), ClientId()).id) == 4
    assert len(store.keep(("x",), None).id) == len(store.keep(("x",), SESSIONLESS).id) == 32


async def test_what_a_client_left_is_dropped_and_nothing_more_is_kept_for_it():
    store, client = KeptResults(), ClientId()
    kept = store.keep((text(1),), client)
    client.connected = False
    store.drop(client)
    assert (store.get(kept.id, client), store.size) == (None, 0)
    assert store.keep((text(1),), client) is None


async def test_the_oldest_of_the_client_with_most_makes_room():
    store, hoarder, other = KeptResults(max_bytes=100 * KB), ClientId(), ClientId()
    first, second = store.keep((text(30),), hoarder), store.keep((text(30),), hoarder)
    small = store.keep((text(10),), other)
    third = store.keep((text(30),), other)
    assert store.get(first.id, hoarder) is None
    assert None not in {store.get(second.id, hoarder), store.get(small.id, other), store.get(third.id, other)}
    assert store.size <= 100 * KB
    alone = store.keep((text(98),), hoarder)
    assert store.get(alone.id, hoarder) is alone
    assert store.get(third.id, other) is None
    assert store.keep((text(100),), other) is None
    assert store.get(alone.id, hoarder) is alone


async def test_very_many_tiny_results_count_too():
    store, client = KeptResults(max_bytes=100 * KB), ClientId()
    kept = [store.keep(("x",), client) for _ in range(1000)]
    assert store.size <= 100 * KB
    assert sum(store.get(each.id, client) is not None for each in kept) < 100


async def test_what_is_too_old_is_gone_and_its_memory_too():
    store, client = KeptResults(max_age_s=0.05), ClientId()
    kept = store.keep((text(1),), client)
    await soon(lambda: store.size == 0)
    assert store.get(kept.id, client) is None
    again = store.keep((text(1),), client)
    assert store.get(again.id, client) is again

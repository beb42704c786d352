"""The store that gateways share: each version is written once."""

from __future__ import annotations

import anyio
import pytest

from mcpx.cluster.gateways.table import VersionedTable
from tests.mcpx.cluster.memory_store import MemoryStore

pytestmark = pytest.mark.anyio


async def newest(table, key):
    """The newest version of a key, and its value."""
    while version := (await table.versions(key)).get(key):
        if (value := await table.get(key, version)) is not None:
            return version, value
    return None


async def test_of_many_who_write_a_version_one_has_written_it():
    store, written = VersionedTable(MemoryStore()), []

    async def write(who):
        if await store.put("pins/a", f"by {who}", 1):
            written.append(who)

    async with anyio.create_task_group() as tasks:
        for who in range(20):
            tasks.start_soon(write, who)
    assert len(written) == 1
    assert await newest(store, "pins/a") == (1, f"by {written[0]}")


async def test_counting_together_loses_no_count():
    below = MemoryStore()

    async def count(name):
        store = VersionedTable(below)
        for _ in range(10):
            while True:
                version, value = await newest(store, "n") or (0, "0 nobody")
                if await store.put("n", f"{int(value.split()[0]) + 1} {name}", version + 1):
                    break

    async with anyio.create_task_group() as tasks:
        for name in range(5):
            tasks.start_soon(count, name)
    version, value = await newest(VersionedTable(below), "n")
    assert (version, value.split()[0]) == (50, "50")
    assert len(below.values) == 1


async def test_a_version_that_was_removed_as_old_is_not_written_again():
    store = VersionedTable(MemoryStore())
    assert await store.put("a", "one", 1)
    assert await store.put("a", "two", 2)
    assert not await store.put("a", "late", 1)
    assert await newest(store, "a") == (2, "two")
    assert await store.versions_of("a") == [2]


async def test_what_changed_is_told_by_one_request():
    below = MemoryStore()
    store = VersionedTable(below)
    for key in ("pins/a", "pins/b", "members/x"):
        await store.put(key, "1", 1)
    await store.put("pins/b", "2", 2)
    below.values |= {"gateways/": "", "gateways/pins/c/x": "", "gateways//1": "", "other": ""}
    before = below.requests
    assert await store.versions() == {"pins/a": 1, "pins/b": 2, "members/x": 1}
    assert below.requests == before + 1
    await store.delete("pins/b")
    assert await newest(store, "pins/b") is None

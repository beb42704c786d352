"""A table that gateways share, in which none overwrites what it has not seen.

Below it is a store of texts by key that can put one where there is none: Ray's own, through the Ray process.
A value stands there as `KEY/VERSION`, so that each version is written once, by one gateway. What was written
last has the highest version; whoever writes removes the older ones.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from mcpx.cluster.ray_client import RayProcess

PREFIX: Final = "gateways/"
ORIGIN: Final = "gateways origin"
MAX_ENTRIES: Final = 100_000  # that are looked at


class VersionedTable:
    """The table over the store `below`. Each method raises `MCPXError` while that cannot be asked."""

    def __init__(self, below: RayProcess) -> None:
        self._below = below

    async def origin(self) -> str:
        """Name this store, otherwise than another one that was begun when it was lost."""
        return await self._below.put(ORIGIN, uuid4().hex, overwrite=False)

    async def versions(self, key: str = "") -> dict[str, int]:
        """Return the newest version of each key, or of one: what has changed has another. One request."""
        found: dict[str, int] = {}
        begin = f"{PREFIX}{key}/" if key else PREFIX
        for full in (await self._below.keys(begin))[:MAX_ENTRIES]:
            name, _, version = full.removeprefix(PREFIX).rpartition("/")
            if version.isascii() and version.isdecimal() and name:
                found[name] = max(int(version), found.get(name, 0))
        return found

    async def get(self, key: str, version: int) -> str | None:
        """Return the value of that version; None where there is a newer one, or none."""
        return await self._below.get(_full(key, version))

    async def put(self, key: str, value: str, version: int) -> bool:
        """Write that version, unless it or a newer one is there; return True if it was written.

        `value` must differ from what others write: it names its writer.
        """
        if await self._below.put(_full(key, version), value, overwrite=False) != value:
            return False
        there = sorted(await self.versions_of(key))
        if there[-1:] != [version]:
            await self._below.delete(_full(key, version))  # it was written once, and removed as an old one
            return False
        for old in there[:-1]:
            await self._below.delete(_full(key, old))
        return True

    async def delete(self, key: str) -> None:
        """Remove all versions of a key."""
        for version in await self.versions_of(key):
            await self._below.delete(_full(key, version))

    async def versions_of(self, key: str) -> list[int]:
        """Return all versions of a key that are there."""
        begin = f"{PREFIX}{key}/"
        rest = [full.removeprefix(begin) for full in await self._below.keys(begin)]
        return [int(each) for each in rest if each.isascii() and each.isdecimal()]


def _full(key: str, version: int) -> str:
    return f"{PREFIX}{key}/{version:012d}"

"""A store that gateways share, in which none overwrites what it has not seen.

Below it is any store of texts by key that can put one where there is none (`KeyValue`): Ray's own, through
the Ray process. A value stands there as `KEY/VERSION`, so that each version is written once, by one gateway.
What was written last has the highest version; whoever writes removes the older ones.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol
from uuid import uuid4

PREFIX: Final = "gateways/"
ORIGIN: Final = "gateways origin"
MAX_ENTRIES: Final = 100_000  # that are looked at


class KeyValue(Protocol):
    """The store below. Each method raises `MCPXError` while it cannot be asked, within seconds."""

    async def get(self, key: str) -> str | None:
        """The value, or None."""
        ...

    async def put(self, key: str, value: str, *, overwrite: bool = True) -> str:
        """Set the value, without `overwrite` only where there is none; what is there then."""
        ...

    async def delete(self, key: str) -> None:
        """Remove a key, which need not be there."""
        ...

    async def keys(self, prefix: str = "") -> tuple[str, ...]:
        """The keys that begin so."""
        ...


class Entry(NamedTuple):
    """A value, and its version."""

    version: int
    value: str


class SharedStore:
    """The store, with versions. Raises what the one below raises."""

    def __init__(self, below: KeyValue) -> None:
        self._below = below

    async def origin(self) -> str:
        """A name of this store that another one, begun when it was lost, does not have."""
        return await self._below.put(ORIGIN, uuid4().hex, overwrite=False)

    async def versions(self, key: str = "") -> dict[str, int]:
        """The newest version of each key, or of one: what has changed is what has another. One request."""
        found: dict[str, int] = {}
        begin = f"{PREFIX}{key}/" if key else PREFIX
        for full in (await self._below.keys(begin))[:MAX_ENTRIES]:
            name, _, version = full.removeprefix(PREFIX).rpartition("/")
            if version.isascii() and version.isdecimal() and name:
                found[name] = max(int(version), found.get(name, 0))
        return found

    async def get(self, key: str, version: int) -> str | None:
        """The value of that version; None where there is a newer one, or none."""
        return await self._below.get(_full(key, version))

    async def newest(self, key: str) -> Entry | None:
        """The newest value."""
        while version := (await self.versions(key)).get(key):
            value = await self.get(key, version)
            if value is not None:
                return Entry(version, value)
        return None

    async def put(self, key: str, value: str, version: int) -> bool:
        """Write that version, unless it or a newer one is there; whether it was written.

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
        """All versions of a key that are there."""
        begin = f"{PREFIX}{key}/"
        rest = [full.removeprefix(begin) for full in await self._below.keys(begin)]
        return [int(each) for each in rest if each.isascii() and each.isdecimal()]


def _full(key: str, version: int) -> str:
    return f"{PREFIX}{key}/{version:012d}"

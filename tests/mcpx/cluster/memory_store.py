"""A store in memory that several gateways of one process share, as they share Ray's."""

from __future__ import annotations

import anyio

from mcpx.errors import MCPXError


class MemoryStore:
    """A `KeyValue`. While `away` it fails; each request takes a turn of the loop."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.away: str | None = None
        self.requests = 0

    async def _turn(self) -> None:
        self.requests += 1
        await anyio.lowlevel.checkpoint()
        if self.away is not None:
            raise MCPXError(self.away)

    async def get(self, key: str) -> str | None:
        await self._turn()
        return self.values.get(key)

    async def put(self, key: str, value: str, *, overwrite: bool = True) -> str:
        await self._turn()
        if overwrite:
            self.values[key] = value
        return self.values.setdefault(key, value)

    async def delete(self, key: str) -> None:
        await self._turn()
        self.values.pop(key, None)

    async def keys(self, prefix: str = "") -> tuple[str, ...]:
        await self._turn()
        return tuple(sorted(key for key in self.values if key.startswith(prefix)))

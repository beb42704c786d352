"""Session managers of the SDK, each made when its first client comes and kept while the frontend runs.

For endpoints that serve many endpoints. A manager holds its sessions: when it is ended they end, too, and
their clients begin new ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import anyio
import anyio.abc
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

K = TypeVar("K")


class SessionManagers(Generic[K]):
    """The managers by what they are for, while `running`.

    `make` makes one, with tasks that last as long as it does.
    """

    def __init__(self, make: Callable[[K, anyio.abc.TaskGroup], StreamableHTTPSessionManager]) -> None:
        self._make = make
        # the one that was used longest ago is the first
        self._managers: dict[K, tuple[StreamableHTTPSessionManager, anyio.CancelScope]] = {}
        self._making = anyio.Lock()
        self._tasks: anyio.abc.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the sessions."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()
        self._tasks = None
        self._managers.clear()

    async def get(self, key: K) -> StreamableHTTPSessionManager:
        """The manager; it is made if there is none."""
        async with self._making:
            running = self._managers.pop(key, None)
            if running is None:
                if self._tasks is None:
                    raise RuntimeError("the endpoint is not running")
                running = await self._tasks.start(self._run, key)
            self._managers[key] = running
            return running[0]

    def end(self, key: K) -> None:
        """End a manager with its sessions, if there is one."""
        if (ended := self._managers.pop(key, None)) is not None:
            ended[1].cancel()

    def end_all(self, belongs: Callable[[K], bool]) -> None:
        """End those managers with their sessions."""
        for key in [key for key in self._managers if belongs(key)]:
            self.end(key)

    def end_oldest(self, counts: Callable[[K], bool], most: int) -> None:
        """Keep at most that many of those that count: end the ones that were used longest ago."""
        counted = [key for key in self._managers if counts(key)]
        for key in counted[: max(0, len(counted) - most)]:
            self.end(key)

    async def _run(
        self,
        key: K,
        *,
        task_status: anyio.abc.TaskStatus[tuple[StreamableHTTPSessionManager, anyio.CancelScope]],
    ) -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                manager = self._make(key, tasks)
                async with manager.run():
                    task_status.started((manager, scope))
                    await anyio.sleep_forever()

"""`Flight`: one piece of work that many wait for, and that nobody who waits can cut off.

It runs in the task group of `Background` while there is one, so that each of those who wait may leave; else
in the task of whoever began it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.abc


class Background:
    """Where flights run, for as long as `tasks` is set."""

    tasks: anyio.abc.TaskGroup | None = None


class Flight:
    """Does one thing at a time. The work must be bounded, and must not raise."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._landed: anyio.Event | None = None

    async def join(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work, or wait for the end of that which is being done."""
        if (landed := self._landed) is None:
            landed = self._landed = anyio.Event()
            if self._background.tasks is None:
                await self._fly(work, landed)
            else:
                self._background.tasks.start_soon(self._fly, work, landed)
        await landed.wait()

    async def _fly(self, work: Callable[[], Awaitable[None]], landed: anyio.Event) -> None:
        try:
            with anyio.CancelScope(shield=True):  # a token that was rotated must not get lost
                await work()
        finally:
            self._landed = None
            landed.set()

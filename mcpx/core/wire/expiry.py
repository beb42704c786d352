"""Deadlines of many things that all have the same time, by one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from mcpx.core.telemetry.contained import containing

K = TypeVar("K")


class Expiry(Generic[K]):
    """Calls `on_expiry` with each key that was not discarded within `seconds`, by one timer.

    Because the timeout is the same for all, keys expire in the order in which they were added, and an
    ordinary dict keeps that order: adding and discarding are dict operations, and the one timer only ever
    looks at the oldest. A key that is renewed goes to the end.

    `on_expiry` may add and discard keys. What it raises is logged; the other keys expire all the same.
    """

    def __init__(self, seconds: float, on_expiry: Callable[[K], None]) -> None:
        self._seconds = seconds
        self._on_expiry = on_expiry
        self.deadlines: dict[K, float] = {}
        """When each key expires, by the clock of the loop; the next one first."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self.deadlines)

    def __iter__(self) -> Iterator[K]:
        """The keys, the next to expire first."""
        return iter(self.deadlines)

    def add(self, key: K) -> None:
        """Start the timeout of `key`."""
        self.deadlines[key] = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._expire)

    def renew(self, key: K) -> None:
        """Restart the timeout of `key`, if it is there."""
        if self.deadlines.pop(key, None) is not None:
            self.add(key)

    def discard(self, key: K) -> bool:
        """Remove `key`; return whether it was there."""
        return self.deadlines.pop(key, None) is not None

    def clear(self) -> list[K]:
        """Remove all keys and stop the timer; return them, the oldest first."""
        left = list(self.deadlines)
        self.deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return left

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self.deadlines:
            key, deadline = next(iter(self.deadlines.items()))
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._expire)
                return
            del self.deadlines[key]
            with containing("expiry"):  # one key must not keep the others from expiring
                self._on_expiry(key)

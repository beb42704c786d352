"""The end of a daemon: the grace time for what is open, and the end of one that nobody uses.

A signal has MCPX drain first (`http.drain`), so that a load balancer sends it nothing more; then it stops,
and from there all frontends together have one grace time. `IdleExit` asks for the clients and the calls a few
times within `idle_exit` seconds; no request does anything for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import anyio

from supervisors import Incarnation

LOOKS: Final = 10  # within `idle_exit`
MIN_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 30.0


class Leaving:
    """The state of a hub that is about to end. `grace_s` gives the grace time, in seconds."""

    def __init__(self, grace_s: Callable[[], float]) -> None:
        self._grace_s = grace_s
        self._stopped_at: float | None = None
        self.begun = False
        """True once it was asked to leave: it is not ready for anybody who is not here yet."""
        self.drain_s = 0.0
        """Seconds between the signal and the stop; set by the frontend over HTTP, which has them."""
        self.on_begin: Callable[[], None] = lambda: None
        """Called when it is asked; set by the same."""

    def begin(self) -> None:
        """Note that it will stop soon."""
        if not self.begun:
            self.begun = True
            self.on_begin()

    def stop(self) -> None:
        """Begin the grace time. May be called outside any task."""
        self.begin()
        if self._stopped_at is None:
            self._stopped_at = _now()

    @property
    def grace_left_s(self) -> float:
        """Seconds that requests may still take to finish; before it stops, the whole grace time."""
        if self._stopped_at is None:
            return self._grace_s()
        return max(0.0, self._stopped_at + self._grace_s() - _now())

    @property
    def is_over(self) -> bool:
        """True once the grace time has passed: what still runs is cut off."""
        return self._stopped_at is not None and self.grace_left_s <= 0


def _now() -> float:
    return asyncio.get_running_loop().time()  # anyio's would have to be asked in a task


class Use(NamedTuple):
    """The use of one frontend: whether it has a client now, and how much its clients have done so far."""

    has_clients: bool
    so_far: int


class IdleExit:
    """Calls `end`, once, in the turn in which it finds that nobody has used the daemon for `limit_s()`.

    That is looked up each time, so that a reload puts it in force; 0 is for never. `is_working` says if a
    server has something to do, for whomever.
    """

    def __init__(
        self,
        limit_s: Callable[[], float],
        is_working: Callable[[], bool],
        frontends: Iterable[Callable[[], Use]],
        end: Callable[[], None],
    ) -> None:
        self._limit_s = limit_s
        self._is_working = is_working
        self._frontends = tuple(frontends)
        self._end = end

    async def run(self, incarnation: Incarnation) -> None:
        """Watch until the supervisor asks this child to stop."""
        incarnation.ready()
        await incarnation.while_wanted(self._watch)
        await incarnation.stopping.wait()

    async def _watch(self) -> None:
        seen, used_at = -1, anyio.current_time()
        while True:
            now, limit = anyio.current_time(), self._limit_s()
            uses = [frontend() for frontend in self._frontends]
            so_far = sum(use.so_far for use in uses)
            if so_far != seen or self._is_working() or any(use.has_clients for use in uses):
                seen, used_at = so_far, now
            left = used_at + limit - now
            if limit and left <= 0:
                self._end()
                return
            pause = max(limit / LOOKS, MIN_PAUSE_S) if limit else MAX_PAUSE_S
            await anyio.sleep(min(pause, MAX_PAUSE_S))

"""Stopping a server that nobody uses: when that may be, and when it is due.

Runs beside the calls of one incarnation, and ends it by having the server rest. What it knows, it asks for
when it looks; no call does anything for it. Who wants to end the session for a reason of its own (to move it
to another node) asks here whether it is busy, and has it come to rest first.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

import anyio

from mcpx.core.servers.calls import Calls
from mcpx.core.servers.relay.suspended import SuspendedCalls
from supervisors import Phase, Signal

if TYPE_CHECKING:
    from mcpx.core.servers.actor import Upstream

LOOKS: Final = 10  # within `idle_stop`, so that a use that leaves no trace is seen
MIN_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 30.0


class Idleness:
    """Watches one session of a server. `changes` is set while the server is to be listed again."""

    def __init__(self, upstream: Upstream, calls: Calls, suspended: SuspendedCalls, changes: Signal) -> None:
        self._upstream = upstream
        self._queue = upstream.queue
        self._calls = calls
        self._suspended = suspended
        self._changes = changes
        self._opened_at = time.monotonic()
        self._only_lists = upstream.config.start == "on_demand" and upstream.main is None

    async def watch(self) -> None:
        """Have the server rest when it has been idle for `idle_stop`; return then.

        One that is on demand and was started only to list what it offers rests when it has done so.
        """
        if self._only_lists and self._is_unused():
            await self._upstream.await_descriptions()
            if self._is_unused():
                self._rest()
                return
        limit, used_at = self._upstream.config.idle_stop, self._opened_at
        while limit:
            now = time.monotonic()
            used_at = now if self._is_in_use() else max(used_at, self._last_use())
            if (left := used_at + limit - now) <= 0:
                self._rest()
                return
            pause = min(left, max(limit / LOOKS, MIN_PAUSE_S), MAX_PAUSE_S)
            await anyio.sleep(pause)
            used_at += time.monotonic() - now - pause  # in which MCPX could not run: nobody could use it

    def _last_use(self) -> float:
        return max(self._calls.answered_at, self._queue.wanted_at)

    def _is_unused(self) -> bool:
        """Whether nobody has had a use for the server since it was last asleep."""
        has_answered = self._calls.answered_at > self._opened_at
        return not (self._is_in_use() or has_answered or math.isfinite(self._queue.wanted_at))

    def _is_in_use(self) -> bool:
        """Whether the server is doing something, or keeps something that a client relies on."""
        upstream, companion = self._upstream, self._upstream.companion
        beside = companion.session if companion is not None else None
        return (
            self.is_busy()
            or bool(upstream.subscriptions.uris)
            or self._changes.is_set()
            or (beside is not None and beside.queue.lifecycle_phase() in {Phase.STARTING, Phase.UP})
        )

    def is_busy(self) -> bool:
        """Whether a call runs or waits, or is to be gone on with."""
        return bool(self._calls.running()) or self._queue.has_callers or self.is_bound()

    def is_bound(self) -> bool:
        """Whether it keeps something that would be lost with the session, however long it is waited for."""
        return bool(self._suspended) or self._upstream.has_open_tasks()

    async def quiesce(self, within_s: float) -> bool:
        """Take nothing new until what runs has ended; whether it has in time. If not, it goes on as before.

        Calls that come meanwhile wait in the queue.
        """
        with anyio.move_on_after(within_s):
            await self._calls.drain()
            if not self.is_bound():
                return True
        if self._upstream.idleness is self and self._queue.lifecycle_phase() is Phase.UP:
            self._calls.attach()
        return False

    def _rest(self) -> None:
        """End the incarnation. What comes from now on waits for the next."""
        self._calls.detach()
        self._queue.rest()

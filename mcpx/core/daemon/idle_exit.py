"""The end of a daemon that nobody uses, after `idle_exit` seconds.

A child of the root supervisor. It asks the frontends for their clients, and the servers for their calls, a
few times within `idle_exit`; no request does anything for it. The setting is looked up each time, so that a
reload puts it in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import anyio

from mcpx.core.daemon.hub import Hub
from supervisors import Incarnation

LOOKS: Final = 10  # within `idle_exit`
MIN_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 30.0


class Use(NamedTuple):
    """What a frontend says of its clients: whether there is one now, and how much they have done so far."""

    has_clients: bool
    so_far: int


class IdleExit:
    """Calls `end`, once, in the turn in which it finds that nobody has used the daemon for that long."""

    def __init__(self, hub: Hub, frontends: Iterable[Callable[[], Use]], end: Callable[[], None]) -> None:
        self._hub = hub
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
            now, limit = anyio.current_time(), self._hub.config.idle_exit
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

    def _is_working(self) -> bool:
        """Whether a server has a call or a task, of whoever, or a person is about to sign in."""
        return self._hub.sign_ins.are_waited_for or any(
            upstream.counters.in_flight
            or upstream.has_open_tasks()
            or any(each.queue.has_callers for each in upstream.sessions())
            for upstream in self._hub.upstreams.values()
        )

"""uvicorn with a door of its own: so many connections at a time, and no more.

When all places are taken the next ones wait in the listener's backlog, and the connection that has been idle
longest makes room, if it has been so for a while. That the door is full, or that there are no descriptors
left, is said once a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterator
from typing import Final

import anyio
import anyio.lowlevel
import structlog
import uvicorn
from uvicorn.config import STARTUP_FAILURE

from mcpx.gateway.frontends.http_connection import HttpConnection, Shared
from mcpx.observe.log import Throttle
from mcpx.upstream.transport.descriptors import share

log = structlog.get_logger()
MOST: Final = 256  # connections at a time
PART: Final = 0.25  # of all descriptors
BACKLOG: Final = 128  # connections that wait for a place
PATIENCE_S: Final = 1.0  # that a connection may be idle while somebody else waits for its place
BREATH_S: Final = 0.1  # between two looks for a place, or for a descriptor


class HttpServer(uvicorn.Server):
    """Serves one application on listening sockets. Signals are the daemon's, not uvicorn's."""

    def __init__(self, config: uvicorn.Config, shared: Shared) -> None:
        super().__init__(config)
        self._shared = shared
        self._most = share(PART, MOST)
        self._throttle = Throttle()
        self._accepting: list[asyncio.Task[None]] = []

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, but connections are accepted here."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        self.servers = []
        for listener in sockets or []:
            listener.setblocking(False)  # noqa: FBT003 - the standard library's signature
            self._accepting.append(asyncio.create_task(self._accept_for_ever(listener)))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's; from now on nobody is let in."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)

    async def _accept_for_ever(self, listener: socket.socket) -> None:
        while True:
            await anyio.wait_readable(listener)
            if len(self._shared.connections) >= self._most and not await self._made_room():
                continue
            try:
                joined, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                continue
            except OSError as error:  # most likely there are no descriptors left
                self._say_full(error.strerror or str(error))
                await anyio.sleep(BREATH_S)
                continue
            await self._join(joined)

    async def _join(self, joined: socket.socket) -> None:
        joined.setblocking(False)  # noqa: FBT003 - the standard library's signature
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, joined)
        except OSError as error:  # gone already
            log.debug("http.gone", reason=str(error))
            joined.close()

    def _protocol(self) -> HttpConnection:
        made = HttpConnection(self.config, self.server_state, self.lifespan.state)
        made.shared = self._shared
        return made

    async def _made_room(self) -> bool:
        """Whether a connection that nobody uses made room, at once or in a moment."""
        self._say_full(f"{self._most} connections are open; others wait")
        now = asyncio.get_running_loop().time()
        idle = [each for each in self._shared.connections if each.idle_since is not None]
        oldest = min(idle, key=lambda each: each.idle_since or 0.0, default=None)
        if oldest is None or oldest.idle_since is None or now - oldest.idle_since < PATIENCE_S:
            await anyio.sleep(BREATH_S)
            return False
        oldest.end_idle()
        await anyio.lowlevel.checkpoint()  # until it is gone
        return len(self._shared.connections) < self._most

    def _say_full(self, reason: str) -> None:
        if self._throttle.lets_through():
            log.warning("http.full", reason=reason)

"""A server of HTTP: a bounded number of connections, and an end that drops none of their requests.

When that number is reached, new connections wait in the listener's backlog, and the connection that has been
idle longest is closed for the next one, if it has been idle for a while. That the server is full, or that
there are no descriptors left, is logged once a minute.

While MCPX drains (`http.drain`) requests are served, and each client is told to close its connection. At the
end, connections that wait in the backlog are taken in, and the socket is closed at once: whoever comes later
is refused by the system, and knows that nothing was read. Streams on which clients listen end; what else is
open has the grace time, and what is open then is answered with an error whose outcome is `unknown`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable
from typing import Final

import anyio
import anyio.lowlevel
import structlog

from mcpx.core.gateway.frontends.http.connection import HttpConnection, Shared
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.gateway.frontends.http.requests import Site
from mcpx.core.system.limits import share
from mcpx.core.telemetry.log import Throttle

log = structlog.get_logger()
MAX_CONNECTIONS: Final = 256  # where nothing else is said: of the page
MAX_DESCRIPTOR_SHARE: Final = 0.25
BACKLOG: Final = 128  # connections that wait for a place
ACCEPTED_IN_TURN: Final = 32  # at most, before others have theirs: about 2 ms
TURNS_BEFORE: Final = 3  # in which a signal that was there first is noticed
GRACEFUL_S: Final = 1  # for what is open at the end, where there is no other grace time; then for the answers
FIRST_REQUEST_S: Final = 0.5  # for connections of which nothing was read yet, at the end
DRAIN_POLL_S: Final = 0.01  # between looks at what is open, at the end only
MIN_IDLE_S: Final = 1.0  # before an idle connection is closed for another one
ACCEPT_RETRY_S: Final = 0.1  # when no connection could be accepted
_LOST: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})  # accept(2): it listens no more


def set_up(accepted: socket.socket) -> None:
    """Set up a connection that was accepted; raises OSError for one that has gone."""
    accepted.settimeout(0.0)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer may wait for 40 ms


class HttpServer:
    """Serves a site on a listening socket."""

    def __init__(
        self,
        site: Site,
        shared: Shared,
        *,
        grace_s: Callable[[], float] = lambda: GRACEFUL_S,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """`grace_s` gives how long requests that are open at the end may take to finish.

        At most `max_connections` are open at a time, and never more than a share of all descriptors.
        """
        self._site = site
        self.shared = shared
        self._grace_s = grace_s
        self._max_connections = share(MAX_DESCRIPTOR_SHARE, max_connections)
        self._throttle = Throttle()
        self._ends = anyio.Event()
        self.on_close: Callable[[], None] | None = None
        """Called in the turn in which the socket is closed."""
        self.lost: str | None = None
        """The reason for which the listener cannot be used any more; then the server ends."""

    def end(self) -> None:
        """Have it end."""
        self._ends.set()

    async def serve(self, listener: socket.socket) -> None:
        """Serve until it is to end; the listener is closed then."""
        listener.settimeout(0.0)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._accept_forever, listener)
                await self._ends.wait()
                tasks.cancel_scope.cancel()
            await self._drain(listener)
        finally:
            listener.close()
            for connection in list(self.shared.connections):
                connection.give_up_at_end()

    # --- its end

    async def _drain(self, listener: socket.socket) -> None:
        """Accept no connection from now on, and leave no request without an answer."""
        shared = self.shared
        shared.leave()
        with contextlib.suppress(OSError):  # none waits any more
            while True:
                self._accept(listener)
        listener.close()
        if self.on_close is not None:
            self.on_close()
        await self._within(
            FIRST_REQUEST_S, lambda: not any(each.reader.is_new for each in shared.connections)
        )
        for connection in list(shared.connections):
            connection.shutdown()
        await self._within(self._grace_s(), self._is_left_but_listeners)
        self._cut_off(lambda _exchange: True)
        await self._within(GRACEFUL_S, lambda: not shared.connections)

    def _is_left_but_listeners(self) -> bool:
        """End the streams on which clients listen; return True if nothing is open."""
        self._cut_off(lambda exchange: exchange.is_listening)
        return not self.shared.connections

    def _cut_off(self, is_meant: Callable[[HttpExchange], bool]) -> None:
        for connection in list(self.shared.connections):
            for exchange in [each for each in connection.exchanges if is_meant(each)]:
                exchange.cut_off()

    async def _within(self, seconds: float, holds: Callable[[], bool]) -> None:
        with anyio.move_on_after(seconds):
            while not holds():  # noqa: ASYNC110 - at the end only
                await anyio.sleep(DRAIN_POLL_S)

    # --- its connections

    async def _accept_forever(self, listener: socket.socket) -> None:
        while self.lost is None:
            await anyio.wait_readable(listener)
            for _ in range(TURNS_BEFORE):
                await anyio.lowlevel.checkpoint()
            try:
                for _ in range(ACCEPTED_IN_TURN):
                    is_full = len(self.shared.connections) >= self._max_connections
                    if is_full and not await self._make_room():
                        break
                    self._accept(listener)
            except (BlockingIOError, InterruptedError):
                continue
            except OSError as error:
                if error.errno in _LOST:
                    self.lost = error.strerror
                    self.end()
                    return
                # most likely there are no descriptors left
                self._log_full(error.strerror or str(error))
                await anyio.sleep(ACCEPT_RETRY_S)

    def _accept(self, listener: socket.socket) -> None:
        """Take in the next connection that waits; raises OSError if there is none, or it cannot be."""
        try:
            accepted, _ = listener.accept()
        except ConnectionAbortedError:
            return
        try:
            set_up(accepted)
            HttpConnection(accepted, self._site, self.shared)
        except OSError as error:  # gone already
            log.debug("http.gone", reason=str(error))
            accepted.close()

    async def _make_room(self) -> bool:
        """Close the connection that has been idle longest, or wait a moment; whether there is room then."""
        self._log_full(f"{self._max_connections} connections are open; others wait")
        now = asyncio.get_running_loop().time()
        idle = [each for each in self.shared.connections if each.idle_since is not None]
        oldest = min(idle, key=lambda each: each.idle_since or 0.0, default=None)
        if oldest is None or oldest.idle_since is None or now - oldest.idle_since < MIN_IDLE_S:
            await anyio.sleep(ACCEPT_RETRY_S)
            return False
        oldest.abort()
        return True

    def _log_full(self, reason: str) -> None:
        if self._throttle.lets_through():
            log.warning("http.full", reason=reason)

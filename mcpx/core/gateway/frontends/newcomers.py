"""Connections that have not shown yet what they are: accepted, counted, and the oldest dropped.

What the daemon's socket and a node's listener share. Nothing that a stranger sends or leaves out costs more
than a bounded number of tasks and bytes: of the connections that stay silent, or send half of what they have
to say first, the oldest are dropped when there are too many, or when it is too much together.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import anyio
import structlog

from mcpx.core.system.limits import share
from mcpx.core.telemetry.log import Throttle
from supervisors import Signal

log = structlog.get_logger()
MAX_SILENT: Final = 256  # connections that have not shown yet what they are
MAX_PARTIAL_BYTES: Final = 64 << 20  # of all first messages that are not complete yet
MAX_CLIENTS: Final = 16384
MAX_SILENT_SHARE: Final = 0.125  # of all descriptors
MAX_CLIENTS_SHARE: Final = 0.25
ACCEPT_RETRY_S: Final = 0.1  # after accepting failed: most likely there are no descriptors left


class _Silent(NamedTuple):
    scope: anyio.CancelScope
    since: float


class Newcomers:
    """The newcomers of one listener, `name` in the log; `most` may be silent at a time.

    None is dropped within its first `patience_s` seconds: where there are too many until then, no more are
    accepted, so that clients that all come back at once only wait.
    """

    def __init__(self, name: str, *, most: int = MAX_SILENT, patience_s: float = 0.0) -> None:
        self.max_clients = share(MAX_CLIENTS_SHARE, MAX_CLIENTS)
        """The number of connections that may be served at a time."""
        self._name = name
        self._patience_s = patience_s
        self._has_room = Signal()
        self._max_silent = share(MAX_SILENT_SHARE, most)
        self._silent: dict[socket.socket, _Silent] = {}  # the oldest first
        self._partial_bytes = 0  # of first messages that are not complete yet
        self._throttle = Throttle()

    async def accept(self, listener: socket.socket, take: Callable[[socket.socket], object]) -> None:
        """Accept connections for good, and give each to `take`, which starts a task for it."""
        while True:
            await self._room()
            await anyio.wait_readable(listener)
            try:
                peer, _ = listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                self.warn("not_accepted", error.strerror)
                await anyio.sleep(ACCEPT_RETRY_S)
                continue
            peer.settimeout(0.0)
            take(peer)

    @contextmanager
    def counted(self, peer: socket.socket) -> Iterator[None]:
        """Count a connection as silent; the body is cancelled when others need its place."""
        with anyio.CancelScope() as scope:
            self._silent[peer] = _Silent(scope, anyio.current_time())
            try:
                if len(self._silent) > self._max_silent:
                    self._drop_oldest()
                yield
            finally:
                self._silent.pop(peer, None)
                self._has_room.set()

    def note_partial(self, added: int) -> None:
        """Note that so many bytes of a first message have come, or, below 0, are kept no longer."""
        self._partial_bytes += added
        if added > 0 and self._partial_bytes > MAX_PARTIAL_BYTES:
            self._drop_oldest()

    def is_full(self, clients: int) -> bool:
        """Return True if no further client is to be served, and log that."""
        if clients < self.max_clients:
            return False
        self.warn("full", f"{clients} clients are connected")
        return True

    def warn(self, event: str, reason: str | None) -> None:
        """Log what strangers cause, a few times a minute."""
        if self._throttle.lets_through():
            event_type = f"{self._name}.{event}"
            log.warning(event_type, reason=reason)

    async def _room(self) -> None:
        """Wait until one more may come: there is a place, or the oldest has had its time."""
        while self._patience_s and len(self._silent) >= self._max_silent:
            oldest = next(iter(self._silent.values()))
            left = oldest.since + self._patience_s - anyio.current_time()
            if left <= 0:
                return
            self._has_room.clear()
            with anyio.move_on_after(left):
                await self._has_room.wait()

    def _drop_oldest(self) -> None:
        if not self._silent:
            return
        oldest = next(iter(self._silent))
        self._silent.pop(oldest).scope.cancel()
        self.warn("full", "many connections say nothing; the oldest are dropped")

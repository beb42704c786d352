"""TCP keep-alive: a peer whose machine, or the way to it, has gone without a word is noticed by the kernel.

Whoever makes or accepts a connection over TCP asks for it here: the links between MCPX, the connections to
HTTP servers, those of HTTP clients, and those to other replicas.

* A peer that does not answer the kernel's probes is gone after `IDLE_S + PROBES * INTERVAL_S` (35 s). Its
  kernel answers them, however busy the program is: this tells a dead way from a slow program, and nothing of
  the program.
* One that was sent something and does not acknowledge it is gone after `unacknowledged_s`. On Linux that
  counts a peer that takes nothing more, too, so it must be longer than a slow reader may pause.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final, Protocol

IDLE_S: Final = 20
INTERVAL_S: Final = 5
PROBES: Final = 3
UNACKNOWLEDGED_S: Final = 30.0  # by a server, which is there to read what it is sent
UNREAD_S: Final = 120.0  # by a client, which may be stopped in a debugger


class Socket(Protocol):
    """A connected socket, or asyncio's stand-in for one."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        """Set an option of it."""


def options(unacknowledged_s: float = UNACKNOWLEDGED_S) -> list[tuple[int, int, int]]:
    """The options of a socket, as `setsockopt` takes them: those that this system has."""
    wanted = (
        ("TCP_KEEPIDLE", IDLE_S),
        ("TCP_KEEPALIVE", IDLE_S),  # the same, on macOS
        ("TCP_KEEPINTVL", INTERVAL_S),
        ("TCP_KEEPCNT", PROBES),
        ("TCP_USER_TIMEOUT", int(unacknowledged_s * 1000)),
    )
    found = [
        (socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in wanted if hasattr(socket, name)
    ]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *found]


def keep_alive(connected: Socket, unacknowledged_s: float = UNACKNOWLEDGED_S) -> None:
    """Have a peer noticed that is gone. Nothing happens to a socket that is not of TCP, or closed by now."""
    for option in options(unacknowledged_s):
        with suppress(OSError):
            connected.setsockopt(*option)

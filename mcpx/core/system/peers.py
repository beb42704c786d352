"""The other end of a connection: whose it is, and whether it is still there, as far as the system says.

Of a Unix socket every system says it, and the folder of MCPX's socket is closed to others besides. Of a
connection to a port Linux alone does. Every user of a computer can connect to a port on its loopback, and
neither the cookie of the page nor the state of a sign-in tells them apart: a browser sends its cookies to
whatever program listens on another port of the same name, and the state stands in an address. So the kernel
is asked to whom the other socket belongs (sock_diag(7)). Where it does not say, as on macOS, or for a
connection from the host of a virtual machine, only the cookie or the state counts. Used by the page and by
the callback of sign-ins.

A peer whose machine, or the way to it, has gone without a word is noticed by the kernel: whoever makes or
accepts a connection over TCP asks for that (`keep_alive`). They are the links between MCPX, the connections
to HTTP servers, those of HTTP clients, and those to other replicas.

* A peer that does not answer the kernel's probes is gone after `IDLE_S + PROBES * INTERVAL_S` (35 s); on
  Linux after `unacknowledged_s`, which takes the place of `PROBES` (tcp(7)). Its kernel answers them, however
  busy the program is: this tells a dead way from a slow program, and nothing of the program.
* One that was sent something and does not acknowledge it is gone after `unacknowledged_s`. On Linux that
  counts a peer that takes nothing more, too, so it must be longer than a slow reader may pause.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple, Protocol

from mcpx.core.system.linux import HIDDEN, LINUX

# --- whose it is

Address = tuple[str, int]
_NETLINK: Final = 16  # AF_NETLINK; the module has the name on Linux only
_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_ALL_STATES: Final = 0xFFFFFFFF
_ESTABLISHED: Final = 1
_LISTENS: Final = 10
_NO_COOKIE: Final = 0xFFFFFFFF
_HEADER: Final = struct.Struct("=IHHII")
_KIND: Final = struct.Struct("=4xH10x")
_STATE_AND_UID: Final = struct.Struct("=16xxB2x48x12xI")  # within an `inet_diag_msg` and its header
_TIMEOUT_S: Final = 0.1  # the kernel answers in microseconds
_ROOT: Final = 0


def peer_uid(peer: socket.socket) -> int | None:
    """The user at the other end of a Unix socket; None where Linux's way to know it is hidden.

    Raises:
        OSError: The system does not tell.
    """
    if LINUX:
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[1])
    if HIDDEN:
        return None
    xucred = peer.getsockopt(0, 1, 8)  # SOL_LOCAL, LOCAL_PEERCRED: it begins with version and uid
    return int(struct.unpack("2I", xucred)[1])


class _End(NamedTuple):
    state: int
    uid: int


def belongs_to_user(connection: socket.socket) -> bool:
    """Return True if a connection that was accepted may be one of this user (or root), as `is_own` has it."""
    try:
        return is_own(connection.getpeername()[:2], connection.getsockname()[:2])
    except OSError:
        return False  # it is gone


def is_own(client: Address, server: Address) -> bool:
    """Return True if the connection from `client` to `server` may be one of this user (or root).

    False for another user's, and for one that its client has left already: nobody waits for an answer.
    """
    if not users_are_known():
        return True
    uid = os.geteuid()
    theirs = _end(client, server)
    if theirs is None:
        ours = _end(server, client)
        return ours is not None and ours.state == _ESTABLISHED
    if theirs.state == _ESTABLISHED:
        return theirs.uid in (uid, _ROOT)
    return theirs.uid == uid != _ROOT  # one that nobody holds any more counts as root's, too


@cache
def users_are_known() -> bool:
    """Return True if the system says whose sockets are: asked of a connection of our own."""
    if not LINUX:
        return False
    with suppress(OSError), socket.create_server(("127.0.0.1", 0)) as listener:
        server = listener.getsockname()
        with socket.create_connection(server, timeout=1.0) as client:
            return _end(client.getsockname(), server) == _End(_ESTABLISHED, os.geteuid())
    return False


def _end(here: Address, there: Address) -> _End | None:
    """The end at `here` of the connection to `there`; None if there is none that is known."""
    try:
        family, addresses = _packed(here[0], there[0])
        which = struct.pack("!HH", here[1], there[1]) + addresses
        body = struct.pack("=BBxxI", family, socket.IPPROTO_TCP, _ALL_STATES) + which
        body += struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
        with socket.socket(_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.settimeout(_TIMEOUT_S)
            kernel.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, 0, 0) + body)
            answer = kernel.recv(8192)
        if _KIND.unpack_from(answer) != (_BY_FAMILY,):
            return None
        end = _End(*_STATE_AND_UID.unpack_from(answer))
    except (OSError, ValueError, struct.error):
        return None
    return None if end.state == _LISTENS else end


def _packed(here: str, there: str) -> tuple[int, bytes]:
    family = socket.AF_INET6 if ":" in here else socket.AF_INET
    return family, b"".join(socket.inet_pton(family, each).ljust(16, b"\0") for each in (here, there))


# --- whether it is still there

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

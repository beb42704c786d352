"""The owner of the process at the other end of a loopback connection, as far as the system says.

Every user of a computer can connect to a port on its loopback, and neither the cookie of the page nor the
state of a sign-in tells them apart: a browser sends its cookies to whatever program listens on another port
of the same name, and the state stands in an address. So the kernel is asked to whom the other socket belongs
(sock_diag(7), on Linux). Where it does not say, as on macOS, or for a connection from the host of a virtual
machine, only the cookie or the state counts. Used by the page and by the callback of sign-ins.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

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

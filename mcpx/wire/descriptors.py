"""Reading and writing file descriptors without a thread for every line.

The SDK's stdio server gives each line to a worker thread, and a thread blocked in a read cannot be
cancelled, so that a signal would not end the process. Here the event loop waits for readiness. What cannot
be waited for (a regular file, /dev/null) is always ready and is read directly.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

import anyio

CHUNK = 256 * 1024  # bytes a read asks for: four times a Linux pipe, so that a burst is one read


@contextlib.contextmanager
def nonblocking(*fds: int) -> Iterator[None]:
    """Pipes and sockets among `fds` do not block meanwhile.

    Terminals and files are left alone: their open file is shared with the shell, which would suffer.
    """
    changed = [fd for fd in fds if _is_channel(fd) and os.get_blocking(fd)]
    for fd in changed:
        os.set_blocking(fd, False)
    try:
        yield
    finally:
        for fd in changed:
            os.set_blocking(fd, True)


def _is_channel(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _can_wait(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return _is_channel(fd) or (stat.S_ISCHR(mode) and os.isatty(fd))


async def read(fd: int) -> bytes:
    """The next bytes, at most `CHUNK`; empty at the end. A peer that is gone is an end."""
    while True:
        if _can_wait(fd):
            await anyio.wait_readable(fd)
        try:
            return os.read(fd, CHUNK)
        except BlockingIOError:
            await anyio.lowlevel.checkpoint()
        except ConnectionError:
            return b""


async def write(fd: int, data: bytes) -> None:
    """Write all of `data`. Raises OSError when nobody reads any more (EPIPE)."""
    view = memoryview(data)
    waits = _can_wait(fd)
    while view:
        try:
            written = os.write(fd, view)
        except BlockingIOError:
            written = 0
        view = view[written:]
        if view and waits:
            await anyio.wait_writable(fd)

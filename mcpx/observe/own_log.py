"""The daemon's own log, kept from growing without end.

A daemon runs for months, and whoever started it has sent its standard output and error to a file. `OwnLog` is
a child of the daemon's root: it looks now and then, and when the file has become too large it is kept as
`.log.1` and a new one takes its place under the same descriptors. Where they are something else, a terminal
or the journal, it does nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import anyio
import structlog

from supervisors import Incarnation

log = structlog.get_logger()
LOOK_S: Final = 60.0


class OwnLog:
    """Looks after the log at `path`; `largest` is in bytes."""

    def __init__(self, path: Path, largest: int, *, every: float = LOOK_S) -> None:
        self._path = path
        self._largest = largest
        self._every = every

    async def run(self, incarnation: Incarnation) -> None:
        """Look until the supervisor asks to leave."""
        incarnation.ready()
        while not incarnation.stopping.is_set():
            try:
                rotate(self._path, self._largest)
            except OSError as error:  # a full disk, a folder that is gone: the old file goes on
                log.warning("log.not_rotated", path=str(self._path), reason=error.strerror)
            with anyio.move_on_after(self._every):
                await incarnation.stopping.wait()


def rotate(path: Path, largest: int) -> bool:
    """Begin the log anew if it is ours and larger than that; whether it was. Raises OSError."""
    ours = os.fstat(2)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    if not os.path.samestat(ours, there) or there.st_size <= largest:
        return False
    path.replace(path.with_suffix(".log.1"))
    begun = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        for fd in (1, 2):
            if os.path.samestat(os.fstat(fd), ours):
                os.dup2(begun, fd)
    finally:
        os.close(begun)
    return True

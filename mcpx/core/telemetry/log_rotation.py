"""Rotation of the daemon's own log.

A daemon runs for months, with standard output and error in a file. `LogRotation`, a child of the daemon's
root, checks its size now and then: when it is too large, it is kept as `.log.1`, and a new file replaces it
under the same descriptors. Where these are something else, a terminal or the journal, it does nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import anyio
import structlog

from supervisors import Incarnation

log = structlog.get_logger()
CHECK_INTERVAL_S: Final = 60.0


class LogRotation:
    """Rotates the log at `path` when it exceeds `largest` bytes."""

    def __init__(self, path: Path, largest: int, *, every: float = CHECK_INTERVAL_S) -> None:
        self._path = path
        self._largest = largest
        self._every = every

    async def run(self, incarnation: Incarnation) -> None:
        """Check until the supervisor asks this child to stop."""
        incarnation.ready()
        while not incarnation.stopping.is_set():
            try:
                rotate(self._path, self._largest)
            except OSError as error:  # a full disk, a folder that is gone: the old file goes on
                log.warning("log.not_rotated", path=str(self._path), reason=error.strerror)
            with anyio.move_on_after(self._every):
                await incarnation.stopping.wait()


def rotate(path: Path, largest: int) -> bool:
    """Begin a new log if this process writes to `path` and it is larger than that; whether it was.

    Raises:
        OSError: The file cannot be replaced.
    """
    current = os.fstat(2)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    if not os.path.samestat(current, there) or there.st_size <= largest:
        return False
    path.replace(path.with_suffix(".log.1"))
    begun = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        for fd in (1, 2):
            if os.path.samestat(os.fstat(fd), current):
                os.dup2(begun, fd)
    finally:
        os.close(begun)
    return True

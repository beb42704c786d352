"""Buffered output of whole lines to a non-blocking descriptor, and reading from one."""

from __future__ import annotations

import os
from collections import deque
from typing import Final

READ_SIZE: Final = 65536  # bytes
MAX_LINES_PER_WRITE: Final = 64


class Outbox:
    """Lines that wait for one side; `waiting` is their size in bytes."""

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque()
        self.waiting = 0
        self._written = 0  # bytes of the first line that have been written

    def put(self, lines: list[bytes]) -> None:
        """Append lines; `flush` writes them."""
        self.lines.extend(lines)
        self.waiting += sum(map(len, lines))

    def flush(self, fd: int) -> None:
        """Write as much as the descriptor accepts now.

        Raises:
            OSError: The other side is gone.
        """
        while self.lines:
            pieces: list[bytes | memoryview] = [memoryview(self.lines[0])[self._written :]]
            pieces += [self.lines[i] for i in range(1, min(len(self.lines), MAX_LINES_PER_WRITE))]
            try:
                count = os.writev(fd, pieces)
            except BlockingIOError:
                return
            self.waiting -= count
            self._written += count
            while self.lines and self._written >= len(self.lines[0]):
                self._written -= len(self.lines.popleft())

    def take_unsent(self) -> list[bytes]:
        """Take out the lines of which no byte was written; drop the rest."""
        lines = list(self.lines)[1 if self._written else 0 :]
        self.lines.clear()
        self.waiting = self._written = 0
        return lines


def read(fd: int) -> bytes | None:
    """What can be read now: empty at the end of the stream, None if there is nothing yet."""
    try:
        return os.read(fd, READ_SIZE)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:  # a peer that is gone is an end
        return b""

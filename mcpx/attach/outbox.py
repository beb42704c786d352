"""Lines on their way out over a descriptor that does not block, and what comes in over one."""

from __future__ import annotations

import os
from collections import deque
from typing import Final

CHUNK: Final = 65536  # bytes a read asks for
PIECES: Final = 64  # lines handed to the system at once


class Outbox:
    """Whole lines on their way to one side."""

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque()
        self.waiting = 0
        self._begun = 0  # bytes of the first line that are out

    def put(self, lines: list[bytes]) -> None:
        self.lines.extend(lines)
        self.waiting += sum(map(len, lines))

    def flush(self, fd: int) -> None:
        """Write what is taken now. Raises OSError where nobody takes anything any more."""
        while self.lines:
            pieces: list[bytes | memoryview] = [memoryview(self.lines[0])[self._begun :]]
            pieces += [self.lines[i] for i in range(1, min(len(self.lines), PIECES))]
            try:
                written = os.writev(fd, pieces)
            except BlockingIOError:
                return
            self.waiting -= written
            self._begun += written
            while self.lines and self._begun >= len(self.lines[0]):
                self._begun -= len(self.lines.popleft())

    def not_begun(self) -> list[bytes]:
        """Take out the lines of which nothing was written, and forget the rest."""
        lines = list(self.lines)[1 if self._begun else 0 :]
        self.lines.clear()
        self.waiting = self._begun = 0
        return lines


def read(fd: int) -> bytes | None:
    """What there is: nothing at the end, None where there is nothing yet."""
    try:
        return os.read(fd, CHUNK)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:  # a peer that is gone is an end
        return b""

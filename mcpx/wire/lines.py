"""Newline-delimited messages out of byte chunks, in bounded memory. Pure.

A line longer than the limit is skipped to its end, however long that is, and reported once; what follows is
read as usual. Imported by `mcpx attach`, so standard library and msgspec only.
"""

from __future__ import annotations

from typing import Final

import msgspec


class TooLong(msgspec.Struct, frozen=True):
    """A line over `limit` bytes, which was skipped. `head` and `tail` are its ends, with the id in one."""

    head: bytes
    tail: bytes
    limit: int


KEPT_BYTES: Final = 4096  # of either end of a line that is too long


class LineSplitter:
    """Turns chunks into whole lines, without their line ends and without empty ones."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._length = 0
        self._skipped: bytes | None = None
        self._tail = b""

    def set_limit(self, limit: int) -> None:
        """Accept lines of at most `limit` bytes from now on."""
        self._limit = limit

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """Return the lines that `chunk` completes, in order."""
        end = chunk.find(b"\n")
        if end < 0:
            self._append(chunk)
            return []
        self._append(chunk[:end])
        lines: list[bytes | TooLong] = []
        self._finish(lines)
        if end + 1 == len(chunk):  # as nearly all are
            return lines
        others = chunk[end + 1 :].split(b"\n")
        last = others.pop()
        for line in filter(None, others):  # whole in this chunk; a flood of empty ones costs next to nothing
            self._append(line)
            self._finish(lines)
        self._append(last)
        return lines

    def _append(self, part: bytes) -> None:
        if not part:
            return
        if self._skipped is not None:
            self._tail = (self._tail + part)[-KEPT_BYTES:]
            return
        self._length += len(part)
        self._parts.append(part)
        if self._length > self._limit:
            whole = b"".join(self._parts)
            self._skipped, self._tail = whole[:KEPT_BYTES], whole[-KEPT_BYTES:]
            self._parts.clear()

    def _finish(self, lines: list[bytes | TooLong]) -> None:
        if self._skipped is not None:
            lines.append(TooLong(self._skipped, self._tail, self._limit))
        elif line := b"".join(self._parts).strip():
            lines.append(line)
        self._parts.clear()
        self._length = 0
        self._skipped = None

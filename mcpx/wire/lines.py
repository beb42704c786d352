"""Newline-delimited messages out of byte chunks, in bounded memory: pure.

Used for the standard output of a child and for the standard input of the gateway. A line longer than the
limit is skipped to its end, however long that is, and reported once; what follows is read as usual.
"""

from __future__ import annotations

import msgspec


class TooLong(msgspec.Struct, frozen=True):
    """A line over the limit was skipped. `head` and `tail` are its ends, enough to find a request id in."""

    head: bytes
    tail: bytes
    limit: int


KEPT = 4096  # bytes kept of either end of a line that is too long


class LineSplitter:
    """Feed it chunks as they come; it gives whole lines, without their end and without empty ones."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._length = 0
        self._skipped: bytes | None = None
        self._tail = b""

    def set_limit(self, limit: int) -> None:
        """Take lines of so many bytes from now on."""
        self._limit = limit

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines that `chunk` completes, in order."""
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
            self._tail = (self._tail + part)[-KEPT:]
            return
        self._length += len(part)
        self._parts.append(part)
        if self._length > self._limit:
            whole = b"".join(self._parts)
            self._skipped, self._tail = whole[:KEPT], whole[-KEPT:]
            self._parts.clear()

    def _finish(self, lines: list[bytes | TooLong]) -> None:
        if self._skipped is not None:
            lines.append(TooLong(self._skipped, self._tail, self._limit))
        elif line := b"".join(self._parts).strip():
            lines.append(line)
        self._parts.clear()
        self._length = 0
        self._skipped = None

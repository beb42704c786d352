"""Newline-delimited messages out of byte chunks, in bounded memory. Pure.

A line longer than the limit is skipped to its end, however long that is, and reported once; what follows is
read as usual. Imported by `mcpx attach`, so standard library and msgspec only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from mcpx.core.wire.intake import HEAD_BYTES, LARGE_BYTES, LargeMessage, Mend, Reader

if TYPE_CHECKING:
    from mcpx.core.wire.channel import Channel


class TooLong(msgspec.Struct, frozen=True):
    """A line that was skipped: over `limit` bytes, or its sender `stalled` within it while others waited.

    `head` and `tail` are its ends, with the id in one.
    """

    head: bytes
    tail: bytes
    limit: int
    stalled: bool = False

    @property
    def problem(self) -> str:
        """The fault, in words that follow "a line" or "the answer is"."""
        return "not sent to its end in time" if self.stalled else f"over {self.limit} bytes"


KEPT_BYTES: Final = HEAD_BYTES  # of either end of a line that is too long


Line = bytes | LargeMessage | TooLong


class LineSplitter:
    """Turns chunks into whole lines, without their line ends and without empty ones."""

    def __init__(
        self, limit: int, reader: Reader | None = None, mender: Callable[[], Mend] | None = None
    ) -> None:
        """With a `reader`, which is held where memory is short, long lines are `LargeMessage`s, mended so."""
        self._limit = limit
        self._reader = reader
        self._mender = mender
        self._large: LargeMessage | None = None
        self._parts: list[bytes] = []
        self._length = 0
        self._skipped: bytes | None = None
        self._stalled = False
        self._tail = b""

    def set_limit(self, limit: int) -> None:
        """Accept lines of at most `limit` bytes from now on."""
        self._limit = limit

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the lines that `chunk` completes, in order."""
        lines: list[Line] = []
        if not self._length and self._skipped is None and len(chunk) <= min(self._limit, LARGE_BYTES):
            *whole, rest = chunk.split(b"\n")  # whole lines, as nearly always
            lines += filter(None, map(bytes.strip, whole))
            if rest:
                self._append(rest)
            return lines
        end = chunk.find(b"\n")
        if end < 0:
            self._append(chunk)
            return lines
        self._append(chunk[:end])
        self._finish(lines)
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
        if self._large is not None:
            self._large.add(part)
        else:
            self._parts.append(part)
            if self._length > LARGE_BYTES and self._reader is not None:
                self._large = LargeMessage(self._reader, self._mender and self._mender())
                self._parts[0] = self._parts[0].lstrip()
                for each in self._parts:
                    self._large.add(each)
                self._parts.clear()
        if self._length > self._limit or (self._large is not None and self._large.given_up):
            self._skip()

    def _skip(self) -> None:
        whole = b"".join(self._parts) if self._large is None else self._large
        self._skipped, self._tail = bytes(whole[:KEPT_BYTES]), bytes(whole[-KEPT_BYTES:])
        self._stalled = self._large is not None and self._large.given_up
        self.drop()

    def drop(self) -> None:
        """Forget what has come of a line."""
        self._parts.clear()
        if self._large is not None:
            self._large.released()
            self._large = None

    def _finish(self, lines: list[Line]) -> None:
        if self._skipped is not None:
            lines.append(TooLong(self._skipped, self._tail, self._limit, self._stalled))
        elif self._large is not None:
            self._large.end()
            lines.append(self._large)
        elif line := b"".join(self._parts).strip():
            lines.append(line)
        self._parts.clear()
        self._length = 0
        self._large = None
        self._skipped = None


# --- fairness between peers: the messages of each are taken a few per turn of the event loop

MAX_MESSAGES_PER_TURN: Final = 32  # of one peer: 1 to 5 ms
AT_ONCE: Final = 16  # what they lead to is written then, so that others are at work while the rest is taken


class Turns(Reader):
    """Splits what is read into lines of at most `limit` bytes, and gives them to `take`, `AT_ONCE` at most.

    A chunk usually holds a message or two, which are taken at once. Where it holds hundreds, the rest waits
    for the next turns, and meanwhile nothing more is read from that peer.
    """

    def __init__(
        self,
        channel: Channel,
        limit: int,
        take: Callable[[list[Line]], None],
        mender: Callable[[], Mend] | None = None,
    ) -> None:
        """`mender` is for large messages, as in `LineSplitter`."""
        self._channel = channel
        self._splitter = LineSplitter(limit, self, mender)
        self._take = take
        self._backlog: deque[Line] = deque()

    @property
    def has_backlog(self) -> bool:
        """True if the peer has sent messages that have not been taken yet."""
        return bool(self._backlog) or self._channel.has_input()

    def feed(self, chunk: bytes) -> None:
        """Take what has been read."""
        lines = self._splitter.feed(chunk)
        if not self._backlog and len(lines) <= MAX_MESSAGES_PER_TURN:
            for first in range(0, len(lines), AT_ONCE):
                self._take(lines[first : first + AT_ONCE])
            return
        begins = not self._backlog
        self._backlog.extend(lines)
        self._hold_if_needed()
        if begins:
            self._next()

    def stop(self) -> None:
        """Take no more."""
        self._backlog.clear()
        self._splitter.drop()

    # --- for large messages

    def _hold_if_needed(self) -> None:
        if self._waits or self._backlog:
            self._channel.hold_reading()
        else:
            self._channel.release_reading()

    def _next(self) -> None:
        few = [self._backlog.popleft() for _ in range(min(AT_ONCE, len(self._backlog)))]
        self._take(few)
        if self._backlog:
            self._channel.call_soon(self._next)
        else:
            self._hold_if_needed()

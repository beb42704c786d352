"""The messages of one peer, dealt with a few at a time: one that floods does not keep the others waiting.

What came in one chunk is usually a message or two, and is dealt with at once. Where it is hundreds, the rest
waits for the next turns of the loop, and meanwhile nothing more is read from that peer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from mcpx.wire.channel import Channel
from mcpx.wire.lines import LineSplitter, TooLong

MESSAGES_A_TURN: Final = 32  # of one peer, before others have their turn: 1 to 5 ms

Lines = list[bytes | TooLong]


class Turns:
    """Cuts what is read into lines of `limit` bytes at most, and gives them to `take`, a few a turn."""

    def __init__(self, channel: Channel, limit: int, take: Callable[[Lines], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._splitter = LineSplitter(limit)
        self._take = take
        self._backlog: deque[bytes | TooLong] = deque()

    @property
    def behind(self) -> bool:
        """Whether the peer has sent what is not dealt with yet."""
        return bool(self._backlog) or self._channel.has_input()

    def feed(self, chunk: bytes) -> None:
        """Take what has been read."""
        lines = self._splitter.feed(chunk)
        if not self._backlog and len(lines) <= MESSAGES_A_TURN:
            self._take(lines)
            return
        begins = not self._backlog
        self._backlog.extend(lines)
        self._channel.hold_reading()
        if begins:
            self._next()

    def stop(self) -> None:
        """Take no more."""
        self._backlog.clear()

    def _next(self) -> None:
        few = [self._backlog.popleft() for _ in range(min(MESSAGES_A_TURN, len(self._backlog)))]
        self._take(few)
        if self._backlog:
            self._loop.call_soon(self._next)
        else:
            self._channel.release_reading()

"""Fairness between peers: the messages of each are taken a few per turn of the event loop.

A chunk usually holds a message or two, which are taken at once. Where it holds hundreds, the rest waits for
the next turns, and meanwhile nothing more is read from that peer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from mcpx.core.wire.channel import Channel
from mcpx.core.wire.intake import Mend, Reader
from mcpx.core.wire.lines import Line, LineSplitter

MAX_MESSAGES_PER_TURN: Final = 32  # of one peer: 1 to 5 ms

Lines = list[Line]


class Turns(Reader):
    """Splits what is read into lines of at most `limit` bytes, and gives them to `take`, a few per turn."""

    def __init__(
        self,
        channel: Channel,
        limit: int,
        take: Callable[[Lines], None],
        mender: Callable[[], Mend] | None = None,
    ) -> None:
        """`mender` is for large messages, as in `LineSplitter`."""
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._splitter = LineSplitter(limit, self, mender)
        self._take = take
        self._waits = False  # for its turn to go on with a large message
        self._backlog: deque[Line] = deque()

    @property
    def has_backlog(self) -> bool:
        """True if the peer has sent messages that have not been taken yet."""
        return bool(self._backlog) or self._channel.has_input()

    def feed(self, chunk: bytes) -> None:
        """Take what has been read."""
        lines = self._splitter.feed(chunk)
        if not self._backlog and len(lines) <= MAX_MESSAGES_PER_TURN:
            self._take(lines)
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

    def hold(self) -> None:
        """Read no further, until it is this peer's turn."""
        self._waits = True
        self._hold_if_needed()

    def release(self) -> None:
        """Read on."""
        self._waits = False
        self._hold_if_needed()

    def _hold_if_needed(self) -> None:
        if self._waits or self._backlog:
            self._channel.hold_reading()
        else:
            self._channel.release_reading()

    def _next(self) -> None:
        few = [self._backlog.popleft() for _ in range(min(MAX_MESSAGES_PER_TURN, len(self._backlog)))]
        self._take(few)
        if self._backlog:
            self._loop.call_soon(self._next)
        else:
            self._hold_if_needed()

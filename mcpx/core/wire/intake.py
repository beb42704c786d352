"""Large messages as they come in: in memory that is bounded over all peers, checked piece by piece.

A message over `LARGE_BYTES` is put together in one buffer, so that it is never there twice, and each piece is
checked (UTF-8) and mended as it comes, so that no turn of the event loop is spent on the whole.

All large messages together hold `SHARED_BYTES`, and beyond that one grows at a time: whose turn it is not is
read no further, which makes its sender wait. The turn is over when the message is done with: when nothing
refers to it any more, or after `released`. One whose sender is silent for `STALL_S` while others wait loses
its turn, and is given up if it is not whole. A result that is whole, and that nobody is at work on, waits
for a client that does not read: after `UNREAD_S`, while others wait, it counts no more, since what a client
leaves unread has bounds of its own. So no peer that stops in the middle holds anybody up for long.
Imported by `mcpx attach`, so standard library and msgspec only.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    import asyncio

LARGE_BYTES: Final = 2 << 20
SHARED_BYTES: Final = 32 << 20
STALL_S: Final = 5.0
UNREAD_S: Final = 1.0
HEAD_BYTES: Final = 4096  # that say what a message was which is given up
_LOOK_S: Final = 0.5


Mend = Callable[[bytes], bytes]
"""Mends a piece, given b"" at the end; what it is not sure of it keeps for the next."""


class LargeMessage(bytearray):
    """A message over `LARGE_BYTES`; `error` says why it is no UTF-8. Counted until nothing refers to it."""

    def __init__(self, reader: Reader, mend: Mend | None = None) -> None:
        super().__init__()
        self.error: UnicodeDecodeError | None = None
        self.given_up = False
        self.content_id = 0
        self.content_at = 0
        self.used_at: float | None = None
        """When a result was whole, or work on it ended (monotonic clock); None before, and meanwhile."""
        self._counted = 0
        self._released = False
        self._intake = INTAKE
        self._reader: Reader | None = reader
        self._check = codecs.getincrementaldecoder("utf-8")().decode
        self._mend = mend
        self._between = False  # the checked text ends within a character

    def add(self, piece: bytes) -> None:
        """Take in what has come."""
        if self.error is None and (self._between or not piece.isascii()):
            self._decode(piece)
        self += piece if self._mend is None else self._mend(piece)
        self._count()
        if self._reader is not None:
            self._intake.grown(self, self._reader)

    def end(self) -> None:
        """Nothing more will come."""
        if self.error is None and self._between:
            self._decode(b"", final=True)
        if self._mend is not None:
            self += self._mend(b"")
        self._reader = None
        self._count()
        self._intake.whole(self)

    def _decode(self, piece: bytes, *, final: bool = False) -> None:
        try:
            self._check(piece, final)
        except UnicodeDecodeError as error:
            self.error = UnicodeDecodeError("utf-8", b"", 0, 1, error.reason)
        self._between = piece[-1:] >= b"\x80"

    def _count(self) -> None:
        if not self._released:
            self._intake.held += len(self) - self._counted
            self._counted = len(self)

    @property
    def is_whole(self) -> bool:
        """True if all of it has come."""
        return self._reader is None

    def give_up(self) -> None:
        """Its sender is silent, and others wait: drop all but the head."""
        self.given_up = True
        del self[HEAD_BYTES:]
        self._count()

    def released(self) -> None:
        """It is counted elsewhere from now on."""
        self._intake.held -= self._counted
        self._counted = 0
        if not self._released:
            self._released = True
            self._intake.over(self)

    def __del__(self) -> None:
        self.released()


class Reader:
    """A reader of a peer, which can stop for a while."""

    _waits = False  # for its turn to go on with a large message

    def hold(self) -> None:
        """Read no further, until it is this peer's turn."""
        self._waits = True
        self._hold_if_needed()

    def release(self) -> None:
        """Read on."""
        self._waits = False
        self._hold_if_needed()

    def _hold_if_needed(self) -> None:
        raise NotImplementedError


class Intake:
    """The turns of large messages. One event loop a process reads messages."""

    def __init__(self) -> None:
        self.held = 0
        """Bytes of all large messages."""
        self._turn: int | None = None  # the `id` of the one that may grow
        self._growing: LargeMessage | None = None  # the same, until it is whole
        self._moved = 0.0  # when it last grew
        self._waiting: dict[int, tuple[LargeMessage, Reader]] = {}  # in order of arrival
        self._timer: asyncio.TimerHandle | None = None
        self._by_content: WeakValueDictionary[int, LargeMessage] = WeakValueDictionary()

    def grown(self, message: LargeMessage, reader: Reader) -> None:
        """A message that is not whole yet has become larger: hold its reader, if it is not its turn."""
        if self._turn == id(message):
            self._moved = time.monotonic()
        elif self.held > SHARED_BYTES and id(message) not in self._waiting:
            if self._turn is None:
                self._give(message)
            else:
                self._waiting[id(message)] = (message, reader)
                reader.hold()
                self._look_later()

    def _give(self, message: LargeMessage) -> None:
        self._turn, self._growing, self._moved = id(message), message, time.monotonic()

    def carries(self, message: LargeMessage, content: object) -> None:
        """A message is known by this part of it from now on."""
        message.content_id = id(content)
        message.used_at = time.monotonic()
        self._by_content[id(content)] = message

    def preceded(self, content: Sized, prefix: bytes) -> memoryview | None:
        """A part of a message with `prefix` before it, if that stands there: without a copy of it."""
        message = self._by_content.get(id(content))
        if message is None or not message.content_at:
            return None
        start = message.content_at - len(prefix)
        if message[start : message.content_at] != prefix:
            return None
        return memoryview(message)[start : message.content_at + len(content)]

    def kept(self, content: object) -> None:
        """The message of this part is counted elsewhere from now on."""
        if (message := self._by_content.pop(id(content), None)) is not None:
            message.released()

    def whole(self, message: LargeMessage) -> None:
        """All of a message has come; it keeps its turn until it is done with."""
        if self._growing is message:
            self._growing, self._moved = None, time.monotonic()

    @contextmanager
    def at_work(self, content: object) -> Iterator[None]:
        """While it is entered, the message of this part waits for no client."""
        message = self._by_content.get(id(content))
        if message is not None:
            message.used_at = None
        try:
            yield
        finally:
            if message is not None:
                message.used_at = time.monotonic()

    def over(self, message: LargeMessage) -> None:
        """A message is done with."""
        waiting = self._waiting.pop(id(message), None)
        if waiting is not None:
            waiting[1].release()
        if self._turn == id(message):
            self._next()

    def _next(self) -> None:
        self._turn = self._growing = None
        if self._waiting:
            message, reader = self._waiting.pop(next(iter(self._waiting)))
            self._give(message)
            reader.release()

    def _look_later(self) -> None:
        if self._timer is None:
            import asyncio  # noqa: PLC0415 - mcpx attach has no loop, and no room for this

            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        """Pass on the turn of a message that stands still."""
        self._timer = None
        if not self._waiting:
            return
        now = time.monotonic()
        for message in list(self._by_content.values()):
            if message.used_at is not None and now - message.used_at > UNREAD_S:
                message.used_at = None
                message.released()
        if self._waiting and now - self._moved > STALL_S:
            if self._growing is not None:
                self._growing.give_up()
            self._next()
        self._look_later()


INTAKE: Final = Intake()

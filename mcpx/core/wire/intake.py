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
import os
import re
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import msgspec

if TYPE_CHECKING:
    import asyncio

LARGE_BYTES: Final = 2 << 20
SHARED_BYTES: Final = 32 << 20
STALL_S: Final = 5.0
UNREAD_S: Final = 1.0
HEAD_BYTES: Final = 4096  # that say what a message was which is given up
_LOOK_S: Final = 0.5
Bytes = bytes | memoryview


_LONG_BYTES: Final = 1024  # of a string that is cut out
_MAX_OUTLINE_BYTES: Final = 16_384  # 5,000 strings, which take 5 ms
_TOKEN: Final = os.urandom(16).hex().encode()
_CUT: Final = re.compile(rb'"%b:(\d+)"' % _TOKEN)
_SHORT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BEHIND: Final = re.compile(r"JSON is malformed: trailing characters \(byte (\d+)\)")
_decode: Final = msgspec.json.Decoder(msgspec.Raw).decode


class Outline:
    """A message without its long strings, which are checked as they come: in their places are numbers.

    Of a text or a picture of ten megabytes, it is all that is left to be read. Whether it is JSON shows when
    it is decoded. It is given up where it becomes large itself, as that of a message of many values.
    """

    def __init__(self) -> None:
        self.content = msgspec.Raw()
        """What `INTAKE.carries` was given, in outline; empty where that is not known."""
        self._content_at = 0
        self._text = bytearray()
        self._cuts: list[tuple[int, int]] = []  # where they stand in the message
        self._size = 0  # of the message so far
        self._begun: int | None = None  # the long string that has not ended
        self._rest = b""  # a string that may become long
        self._is_usable = True

    def goes_on(self, text: bytes) -> bool:
        """Take in what is within one long string; else, and if it is no JSON, do nothing and return False."""
        if self._begun is None or _end_of_string(text) != len(text):
            return False
        self._size += len(text)
        return True

    def add(self, text: bytes) -> None:
        """Take in any text that ends with no half escape."""
        self._size += len(text)
        if self._is_usable:
            text, self._rest = self._rest + text, b""
            self._is_usable = self._add(text, self._size - len(text))

    def _add(self, text: bytes, before: int) -> bool:
        at = 0
        while at < len(text):
            if self._begun is not None:
                end = _end_of_string(text[at:])
                if end is None:
                    return False
                at += end + 1
                if at <= len(text):
                    self._cuts.append((self._begun, before + at))
                    self._begun = None
                continue
            quote = text.find(b'"', at)
            self._text += text[at : len(text) if quote < 0 else quote]
            if quote < 0 or len(self._text) > _MAX_OUTLINE_BYTES:
                break
            if short := _SHORT.match(text, quote, quote + _LONG_BYTES):
                self._text += short[0]
                at = short.end()
            elif len(text) - quote < _LONG_BYTES:
                self._rest = text[quote:]
                break
            else:
                self._text += b'"%b:%d"' % (_TOKEN, len(self._cuts))
                self._begun, at = before + quote, quote + 1
        return len(self._text) <= _MAX_OUTLINE_BYTES

    def end(self, content_at: int, size: int) -> None:
        """All has come: the content of the message begins there, and has that size."""
        if self._is_usable and self._begun is None and not self._rest:
            behind = self._size - content_at - size
            self.content = msgspec.Raw(bytes(self._text[content_at : len(self._text) - behind]))
            self._content_at = content_at

    def whole(self, content: msgspec.Raw, value: msgspec.Raw) -> msgspec.Raw:
        """A value in the outline of `content` as it came."""
        first, *others = self.filled(value, content)
        return msgspec.Raw(b"".join((first, *others)) if others else first)

    def filled(self, part: Bytes, content: msgspec.Raw) -> list[Bytes]:
        """A part of the outline of `content` with all that belongs in it, in pieces.

        Raises:
            ValueError: A part of it is within another string.
        """
        pieces: list[Bytes] = list(_CUT.split(part))
        if any(map(is_cut, pieces[::2])):
            raise ValueError("cannot be filled in")
        for at in range(1, len(pieces), 2):
            begin, end = self._cuts[int(pieces[at])]
            pieces[at] = memoryview(content)[begin - self._content_at : end - self._content_at]
        return [piece for piece in pieces if piece]


def is_cut(part: Bytes) -> bool:
    """Return True if something belongs into a part of an outline."""
    return _TOKEN in bytes(part)


def _end_of_string(text: bytes) -> int | None:
    """Find the quote that ends a JSON string in what follows; its length: it goes on; None: it is no JSON."""
    try:
        _decode(b'"%b"' % text)
    except msgspec.DecodeError as error:  # it says so in C, many times faster than a search
        found = _BEHIND.match(str(error))
        return None if found is None else text.rfind(b'"', 0, int(found[1]) - 2)
    return len(text)


Mend = Callable[[bytes, Outline], bytes]
"""Mends a piece, given b"" at the end, and adds it; what it is not sure of it keeps for the next."""


class LargeMessage(bytearray):
    """A message over `LARGE_BYTES`; `error` says why it is no UTF-8. Counted until nothing refers to it."""

    def __init__(self, reader: Reader, mend: Mend | None = None) -> None:
        super().__init__()
        self.error: UnicodeDecodeError | None = None
        self.given_up = False
        self.outline = Outline()  # empty unless it is mended
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
        self += piece if self._mend is None else self._mend(piece, self.outline)
        self._count()
        if self._reader is not None:
            self._intake.grown(self, self._reader)

    def end(self) -> None:
        """Nothing more will come."""
        if self.error is None and self._between:
            self._decode(b"", final=True)
        if self._mend is not None:
            self += self._mend(b"", self.outline)
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

    def carries(self, message: LargeMessage, content: Sized) -> None:
        """A message is known by this part of it from now on, which lives as long: its views refer to it."""
        message.outline.end(message.content_at, len(content))
        message.used_at = time.monotonic()
        self._by_content[id(content)] = message

    def outline(self, content: object) -> Outline | None:
        """The outline of this part of a message, where it is known."""
        message = self._by_content.get(id(content))
        return message.outline if message is not None and message.outline.content else None

    def looked_at(self, content: msgspec.Raw) -> msgspec.Raw:
        """The outline of any content where it is known, else itself: what is looked at on the event loop."""
        outline = self.outline(content) if len(content) > LARGE_BYTES else None
        return content if outline is None else outline.content

    def preceded(self, content: Sized, prefix: bytes) -> msgspec.Raw | None:
        """A part of a message with `prefix` before it, if that stands there: without a copy of it.

        From now on, the message is known by this alone.
        """
        message = self._by_content.get(id(content))
        if message is None or not message.content_at:
            return None
        start = message.content_at - len(prefix)
        if message[start : message.content_at] != prefix:
            return None
        whole = msgspec.Raw(memoryview(message)[start : message.content_at + len(content)])
        del self._by_content[id(content)]
        message.content_at = start
        self.carries(message, whole)
        return whole

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

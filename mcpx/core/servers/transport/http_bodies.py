"""Bodies of HTTP responses as they come: unpacked, within bounds, a little in each turn of the event loop.

A `Body` takes the pieces of one response. It unpacks them in small steps, so that a small body cannot become
a huge one at once, and reads no further while it has more to do than fits into a turn, or while it is not its
turn to grow (`mcpx.core.wire.intake`). `Whole` has one message, `Events` an event stream, `Prefix` the
beginning of a body that only explains.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from mcpx.core.servers.transport.exchange import Dropped
from mcpx.core.servers.transport.http_answers import MAX_QUOTE_LEN, Event, EventParser, one_event
from mcpx.core.servers.transport.http_connection import Head, HttpConnection
from mcpx.core.telemetry.contained import contain
from mcpx.core.wire.enclosed import one_line
from mcpx.core.wire.intake import LARGE_BYTES, LargeMessage, Reader
from mcpx.core.wire.malformed import Mender
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge

MAX_PREFIX_BYTES: Final = 65536  # read of a body that is no message
PREFIX_TIMEOUT_S: Final = 2.0  # to read them
STEPS_PER_TURN: Final = 32  # of one body, before others have their turn: 1 to 5 ms
_INFLATE_STEP_BYTES: Final = 65536  # that come out of the decompressor at a time
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_MEMBER: Final = b"\x1f"  # begins one of gzip
_PACKED: Final = frozenset({"gzip", "x-gzip", "deflate"})

OnFailure = Callable[[Exception], None]
"""Called once, in the place of the end: with `Dropped`, `MalformedMessage` or `ResponseTooLarge`."""


class Body(Reader):
    """The body of one response. It ends once: in `_finish`, or with `on_failure`."""

    def __init__(self, head: Head, connection: HttpConnection, on_failure: OnFailure) -> None:
        self.over = False
        self._connection: HttpConnection | None = connection
        self._on_failure = on_failure
        self._pieces: deque[bytes] = deque()
        self._steps: Iterator[None] | None = None
        self._end: Exception | bool = False  # True, or why there will be no end
        self._unpack: Callable[[bytes], Iterator[bytes]] = _identity
        self._packed: _Inflated | None = None
        packing = head.headers.get("content-encoding", "").strip().lower()
        self._is_simple = packing in {"", "identity"}
        """True if nothing has come that takes more than one step."""
        if packing in _PACKED:
            self._unpack = self._packed = _Inflated()
        elif not self._is_simple:
            self._unpack = partial(_refused, packing[:MAX_QUOTE_LEN])

    # --- from the connection

    def feed(self, piece: bytes) -> None:
        """Take a piece, as it was sent."""
        if not self.over:
            self._is_simple = False
            self._pieces.append(piece)
            if self._steps is None:
                self._work()

    def end(self, piece: bytes) -> None:
        """Take the last piece."""
        if piece:
            self._pieces.append(piece)
        self._close(end=True)

    def drop(self, error: Dropped) -> None:
        """Nothing more will come: the connection has ended."""
        self._close(end=error)

    def _close(self, *, end: Exception | bool) -> None:
        self._connection = None
        self._end = self._end or end
        if self._steps is None:
            self._work()

    # --- in turns

    def _work(self) -> None:
        """Take a few steps; the others in the next turns, and meanwhile nothing more is read."""
        try:
            for _ in range(STEPS_PER_TURN):
                if self.over:
                    return
                if self._steps is None:
                    if not self._pieces or (self._packed is not None and self._packed.ended):
                        break
                    self._steps = self._take(self._pieces.popleft())
                if next(self._steps, self) is self:
                    self._steps = None
            else:
                asyncio.get_running_loop().call_soon(self._work)
                self._hold_if_needed()
                return
        except Exception as error:  # noqa: BLE001 - the boundary: what it holds must not cost the connections
            self._fail_of(error)
            return
        self._hold_if_needed()
        if self._end is True or (self._packed is not None and self._packed.ended):
            self.over = True
            self._finish()
        elif isinstance(self._end, Exception):
            self.fail(self._end)

    def _fail_of(self, error: Exception) -> None:
        """Give it up because of what was raised while it was taken in."""
        if not isinstance(error, MalformedMessage | ResponseTooLarge):
            contain(error, "body")
            error = MalformedMessage("the answer cannot be read")
        self.fail(error)

    def fail(self, error: Exception) -> None:
        """Give it up, and hang up on its sender."""
        if self.over:
            return
        self.over = True
        self._pieces.clear()
        self._steps = None
        connection, self._connection = self._connection, None
        self._on_failure(error)
        if connection is not None:
            connection.close()

    def _take(self, piece: bytes) -> Iterator[None]:
        for part in self._unpack(piece):
            yield from self._add(part)

    def _add(self, part: bytes) -> Iterator[None]:
        """Take in what was unpacked, in steps."""
        raise NotImplementedError

    def _finish(self) -> None:
        """All has been taken in."""
        raise NotImplementedError

    # --- for large messages

    def _hold_if_needed(self) -> None:
        if self._connection is None:
            return
        if self._waits or self._steps is not None or self._pieces:
            self._connection.hold()
        else:
            self._connection.release()

    def large(self, begun: bytes | bytearray) -> LargeMessage:
        """A large message that has begun so; on one line, and without half surrogate pairs."""
        message = LargeMessage(self, Mender(one_line))
        message.add(bytes(begun))
        return message


def _identity(piece: bytes) -> Iterator[bytes]:
    yield piece


def _refused(packing: str, _piece: bytes) -> Iterator[bytes]:
    raise MalformedMessage(f"the answer is compressed with {packing}, which was not asked for")


class _Inflated:
    """Unpacks zlib, or gzip with all its members (RFC 1952, 2.2); what follows the end of it is dropped."""

    def __init__(self) -> None:
        self.ended = False
        self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB)

    def __call__(self, piece: bytes) -> Iterator[bytes]:
        rest, out = piece, b""
        while rest or (len(out) == _INFLATE_STEP_BYTES and not self._inflate.eof):
            if self._inflate.eof:
                if not rest.startswith(_MEMBER):
                    self.ended = True
                    return
                self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
            try:
                out = self._inflate.decompress(rest, _INFLATE_STEP_BYTES)
            except zlib.error as error:
                raise MalformedMessage(f"the answer's compression is broken: {error}") from error
            yield out
            rest = self._inflate.unconsumed_tail or self._inflate.unused_data


class Whole(Body):
    """A body that is one message of at most `limit` bytes; `on_message` is called once with it."""

    def __init__(
        self,
        head: Head,
        connection: HttpConnection,
        limit: int,
        *,
        on_message: Callable[[bytes | LargeMessage], None],
        on_failure: OnFailure,
    ) -> None:
        super().__init__(head, connection, on_failure)
        self._limit = limit
        self._on_message = on_message
        self._read = bytearray()  # a list of small pieces would hold forty times their size
        self._large: LargeMessage | None = None

    def end(self, piece: bytes) -> None:
        if not self._is_simple or self.over or len(piece) > self._limit:
            super().end(piece)
            return
        try:  # all of it has come in one piece
            self._on_message(piece)
        except Exception as error:  # noqa: BLE001 - the boundary, as for the steps
            self._fail_of(error)
        self.over = True

    def _add(self, part: bytes) -> Iterator[None]:
        large = self._large
        if large is not None:
            large.add(part)
            if large.given_up:
                raise stalled()
        else:
            self._read += part
            if len(self._read) > LARGE_BYTES:
                self._large, self._read = self.large(self._read), bytearray()
        if len(self._read if self._large is None else self._large) > self._limit:
            raise too_large(self._limit)
        yield

    def _finish(self) -> None:
        large, self._large = self._large, None
        if large is None:
            self._on_message(bytes(self._read))
        else:
            large.end()
            self._on_message(large)

    def fail(self, error: Exception) -> None:
        if self._large is not None:
            self._large.released()
            self._large = None
        super().fail(error)


class Events(Body):
    """An event stream; `on_event` is called with each event, `on_end` when it has ended as it should."""

    def __init__(
        self,
        head: Head,
        connection: HttpConnection,
        limit: int,
        *,
        on_event: Callable[[Event], None],
        on_end: Callable[[], None],
        on_failure: OnFailure,
        skips: bool = False,
    ) -> None:
        """`limit` is the most bytes of an event; one that is longer ends the stream, or `skips` it."""
        super().__init__(head, connection, on_failure)
        self._make_parser = partial(EventParser, limit, self.large, skips=skips)
        self._parser: EventParser | None = None
        self._limit = limit
        self._on_event = on_event
        self._on_end = on_end

    def feed(self, piece: bytes) -> None:
        is_whole = self._is_simple and not self.over and len(piece) <= self._limit
        event = one_event(piece) if is_whole else None
        if event is None:
            super().feed(piece)
            return
        try:
            self._on_event(event)
        except Exception as error:  # noqa: BLE001 - the boundary, as for the steps
            self._fail_of(error)

    def end(self, piece: bytes) -> None:
        self._connection = None
        if piece:
            self.feed(piece)
        if self._is_simple and not self.over:
            self.over = True
            self._on_end()
        else:
            super().end(b"")

    def _add(self, part: bytes) -> Iterator[None]:
        if self._parser is None:
            self._parser = self._make_parser()
        for event in self._parser.feed(part):
            self._on_event(event)
            yield

    def _finish(self) -> None:
        self._on_end()


class Prefix(Body):
    """The beginning of a body, within small bounds, after which `on_end` is called once, whatever has come.

    A body that is read to its end leaves the connection for the next request.
    """

    def __init__(self, head: Head, connection: HttpConnection, on_end: Callable[[bytes], None]) -> None:
        super().__init__(head, connection, lambda _error: self._finish())
        self._done = on_end
        self._read = bytearray()
        self._timer = asyncio.get_running_loop().call_later(PREFIX_TIMEOUT_S, self._expire)

    def _add(self, part: bytes) -> Iterator[None]:
        self._read += part
        if len(self._read) > MAX_PREFIX_BYTES:
            raise too_large(MAX_PREFIX_BYTES)
        yield

    def _expire(self) -> None:
        self.fail(too_large(MAX_PREFIX_BYTES))

    def _finish(self) -> None:
        self._timer.cancel()
        self._done(bytes(self._read[:MAX_PREFIX_BYTES]))


def stalled() -> ResponseTooLarge:
    """The error for an answer whose sender stopped in the middle of it, while others waited."""
    return ResponseTooLarge("the answer is not sent to its end in time")


def too_large(limit: int) -> ResponseTooLarge:
    """The error for an answer of more than `limit` bytes."""
    return ResponseTooLarge(f"the answer is over {limit} bytes")

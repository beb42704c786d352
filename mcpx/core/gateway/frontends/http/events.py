"""The streams of events of one session, and the messages that are kept for a client whose stream broke.

Each session of the handshake era has its `SessionEvents`, once a first stream has begun; `KeptEvents` is what
all of them hold together. A client that comes again with `Last-Event-ID` gets what its stream has had since,
and then what comes, until the answer; an older connection of that stream ends. Messages are the bytes that
were sent.

Log and progress messages are not kept, as they are not for any client that does not read. An answer that is
too large to be kept is kept as an error that says so.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Protocol

from mcpx.core.gateway.frontends.http.exchange import COMMENT, EVENTS, HeaderPairs
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import INTERNAL_ERROR, Bytes, RequestId

MAX_EVENTS: Final = 256  # kept of a session
MAX_BYTES: Final = 16 << 20  # kept of a session
MAX_BYTES_ALL: Final = 64 << 20  # kept of all sessions of a frontend
MAX_AGE_S: Final = 300.0
OVERHEAD_BYTES: Final = 500  # of each event
MAX_DIGITS: Final = 15  # of a number that is counted here
RETRY_MS: Final = 1000  # what clients are told to wait before they come again


class Ticks(Protocol):
    """A member of a `Ticker`."""

    def tick(self) -> None:
        """Take note that time has passed."""


class Ticker:
    """Calls its members every so many seconds, while there are any."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._members: set[Ticks] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, member: Ticks) -> None:
        """Call this one, too; the first time may be at once."""
        self._members.add(member)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._every_s, self._tick)

    def discard(self, member: Ticks) -> None:
        """Call it no more."""
        self._members.discard(member)

    def _tick(self) -> None:
        self._timer = None
        if self._members:
            self._timer = asyncio.get_running_loop().call_later(self._every_s, self._tick)
        for member in list(self._members):
            member.tick()


class Stream:
    """The messages of the server for one request, or by itself; `exchange` takes them, while there is one."""

    __slots__ = ("_events", "answered", "exchange", "is_resumed", "kept", "number")

    def __init__(self, events: SessionEvents, number: int) -> None:
        self.number = number
        self.answered = False
        self.kept = 0
        self.exchange: HttpExchange | None = None
        self.is_resumed = False
        """True if the exchange is of a client that came again."""
        self._events = events

    def attach(self, exchange: HttpExchange, *, resumed: bool = False) -> None:
        """Have an exchange, whose stream has begun, take what comes; an older one ends."""
        self.detach()
        self.exchange, self.is_resumed = exchange, resumed
        exchange.on_gone(self._left)
        self._events.silence.add(self)

    def detach(self) -> None:
        """End the exchange, if there is one."""
        exchange, self.exchange = self.exchange, None
        self._events.silence.discard(self)
        if exchange is not None:
            exchange.end()

    def _left(self) -> None:
        self.exchange = None
        self._events.silence.discard(self)

    def tick(self) -> None:
        """Keep the connection alive."""
        if self.exchange is not None:
            self.exchange.put(COMMENT)

    def send(self, pieces: Iterable[Bytes], *, lossy: bool) -> None:
        """Send a message, and keep it, unless it is one that may be lost."""
        self._events.last += 1
        event_id = self._events.id_of(self, self._events.last)
        if lossy:
            if self.exchange is not None:
                self.exchange.event(pieces, event_id=event_id, lossy=True)
            return
        message = b"".join(pieces)
        self._events.keep(self, message)
        if self.exchange is not None:
            self.exchange.event([message], event_id=event_id)

    def answer(self, request_id: RequestId | None, pieces: Iterable[Bytes]) -> None:
        """Send the answer, or nothing, and end the stream."""
        self.answered = True
        message = b"".join(pieces)
        events = self._events
        events.last += 1
        event_id = events.id_of(self, events.last)
        if message:
            size = OVERHEAD_BYTES + len(message)
            events.keep(self, message if size <= MAX_BYTES else _too_large(request_id, len(message)))
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            events.silence.discard(self)
            exchange.end([message] if message else None, event_id=event_id)
        events.forget_if_over(self)


class _Event:
    """One message that is kept, under its number."""

    __slots__ = ("at", "events", "message", "number", "size", "stream")

    def __init__(self, events: SessionEvents, stream: Stream, number: int, message: bytes) -> None:
        self.events = events
        self.stream = stream
        self.number = number
        self.message = message
        self.size = OVERHEAD_BYTES + len(message)
        self.at = time.monotonic()


class KeptEvents:
    """The events that all sessions of one frontend keep."""

    def __init__(self) -> None:
        self.bytes = 0
        self._events: OrderedDict[_Event, None] = OrderedDict()  # the oldest first

    def add(self, event: _Event) -> None:
        """Keep one more."""
        self._events[event] = None
        self.bytes += event.size
        while self.bytes > MAX_BYTES_ALL:
            next(iter(self._events)).events.drop_oldest()

    def discard(self, event: _Event) -> None:
        """Keep it no longer."""
        del self._events[event]
        self.bytes -= event.size

    def expire(self) -> None:
        """Drop what is too old."""
        oldest_allowed = time.monotonic() - MAX_AGE_S
        while self._events and (event := next(iter(self._events))).at < oldest_allowed:
            event.events.drop_oldest()


class SessionEvents:
    """The streams of one session. `headers` are those of all its responses; `silence` keeps them alive."""

    __slots__ = (
        "_events",
        "_headers",
        "_kept",
        "_prefix",
        "_standing",
        "_streams",
        "bytes",
        "last",
        "silence",
    )

    def __init__(self, kept: KeptEvents, silence: Ticker, headers: HeaderPairs = ()) -> None:
        self.bytes = 0
        self.last = 0
        """The number of the last event."""
        self.silence = silence
        self._headers = EVENTS + headers
        self._kept = kept
        self._prefix = secrets.token_hex(4)  # so that an event of another session is unknown
        self._events: dict[int, _Event] = {}  # the oldest first
        self._streams: dict[int, Stream] = {}
        self._standing: Stream | None = None

    # --- streams

    def begin(self, exchange: HttpExchange, *, primed: bool) -> Stream:
        """Begin the stream of a request; with an event without data, after which it can be resumed."""
        self.last += 1
        stream = self._streams[self.last] = Stream(self, self.last)
        exchange.begin_events(self._headers)
        if primed:
            exchange.event((), event_id=self.id_of(stream, self.last), retry_ms=RETRY_MS)
        stream.attach(exchange)
        return stream

    @property
    def standing(self) -> Stream:
        """The stream of what the server sends by itself."""
        if self._standing is None:
            self.last += 1
            self._standing = Stream(self, self.last)
        return self._standing

    def listen(self, exchange: HttpExchange) -> bool:
        """Have an exchange take what the server sends by itself; False if there is one that does."""
        standing = self.standing
        if standing.exchange is not None and not standing.is_resumed:
            return False
        exchange.begin_events(self._headers)
        standing.attach(exchange)  # a client that came again begins anew
        return True

    def resume(self, last_event_id: str, exchange: HttpExchange) -> None:
        """Give a client what its stream has had since that event, and what comes, until its answer."""
        self._kept.expire()
        exchange.begin_events(self._headers)
        prefix, _, position = last_event_id.partition("-")
        number, _, last = position.partition("-")
        stream = None
        if prefix == self._prefix and _is_number(number) and _is_number(last):
            stream = next((each for each in self._all() if each.number == int(number)), None)
        if stream is None:
            exchange.end()
            return
        for number_, event in self._events.items():
            if event.stream is stream and number_ > int(last):
                exchange.event([event.message], event_id=self.id_of(stream, number_))
        if stream.answered:
            exchange.end()
        else:
            stream.attach(exchange, resumed=True)

    @property
    def is_followed(self) -> bool:
        """True if a client has a stream open."""
        return any(stream.exchange is not None for stream in self._all())

    def _all(self) -> list[Stream]:
        """List the streams; that of what the server sends by itself is the last, if there is one."""
        streams = list(self._streams.values())
        return streams if self._standing is None else [*streams, self._standing]

    def close(self) -> None:
        """End all streams, and keep nothing."""
        for stream in self._all():
            stream.detach()
        while self._events:
            self.drop_oldest()

    # --- what is kept

    def id_of(self, stream: Stream, number: int) -> str:
        """Return the id of an event of a stream."""
        return f"{self._prefix}-{stream.number}-{number}"

    def keep(self, stream: Stream, message: bytes) -> None:
        """Keep the last message, unless it is too large."""
        event = _Event(self, stream, self.last, message)
        if event.size > MAX_BYTES:
            return
        self._events[self.last] = event
        stream.kept += 1
        self.bytes += event.size
        self._kept.expire()
        self._kept.add(event)
        while len(self._events) > MAX_EVENTS or self.bytes > MAX_BYTES:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Keep the oldest message no longer."""
        event = self._events.pop(next(iter(self._events)))
        self.bytes -= event.size
        self._kept.discard(event)
        event.stream.kept -= 1
        self.forget_if_over(event.stream)

    def forget_if_over(self, stream: Stream) -> None:
        """Forget a stream that has nothing more to give."""
        if stream.answered and not stream.kept:
            self._streams.pop(stream.number, None)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


def _too_large(request_id: RequestId | None, size: int) -> bytes:
    text = f"The stream of this answer broke, and its {size} bytes are too many to be kept for another one"
    error = {"code": INTERNAL_ERROR, "message": f"{text}. The request was carried out"}
    return b"".join(envelope.failure(request_id, envelope.encode(error)))

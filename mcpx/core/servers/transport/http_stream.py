"""Event streams over HTTP: parsed within bounds, watched as they pass, and opened again when they end.

`EventStream` is the body of one, for the SDK to read; `StandaloneStream` is the stream of messages that the
server sends on its own, outside any request, for as long as the session lives.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

import anyio
import httpx2
import msgspec

from mcpx.core.servers.transport import http_answers
from mcpx.core.servers.transport.exchange import ConnectionDropped, Exchange, HttpLink, StreamLeft
from mcpx.core.servers.transport.http_answers import Redact
from mcpx.core.servers.transport.http_bodies import (
    Body,
    bare_response,
    inflated,
    kept_headers,
    stalled,
    too_large,
)
from mcpx.core.wire.intake import LARGE_BYTES, LargeMessage
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge

_DATA: Final = b"data:"
STABLE_STREAM_S: Final = 10.0  # a stream that lived so long was a good one
MIN_RETRY_DELAY_S: Final = 0.5  # before a stream that broke at once is opened again; doubled each time
MAX_RETRY_DELAY_S: Final = 60.0
_LINE_BREAK: Final = re.compile(rb"\r\n|\n|\r")
_KEPT_FIELDS: Final = frozenset({b"event", b"id", b"retry"})

Open = Callable[[], Awaitable[httpx2.Response]]
Find = Callable[[str], Exchange | None]
"""Finds the exchange that a response belongs to, by its id as a text."""


class Event(msgspec.Struct):
    """One event of a stream; of a field that it has twice, the last."""

    fields: dict[bytes, bytes]
    data: bytes | LargeMessage | None = None
    """Its lines of data with line breaks between them; None without one."""

    @property
    def is_message(self) -> bool:
        """True if it carries a JSON-RPC message."""
        return bool(self.data) and self.fields.get(b"event", b"") in {b"", b"message"}

    def encode(self) -> bytes:
        """The event for another reader, with the empty line that ends it; nothing without any field."""
        lines = [b"%s: %s\n" % each for each in self.fields.items()]
        if self.data is not None:
            lines += [b"data: %s\n" % line for line in self.data.split(b"\n")]
        return b"".join((*lines, b"\n")) if lines else b""


class EventParser:
    """Finds the events in a stream; of an incomplete one it holds at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()  # the last line, as far as it has come
        self.body = Body()
        self._large: LargeMessage | None = None  # the same, where it is data and large
        self._whole: LargeMessage | None = None  # the data, where its first field is large
        self._data: bytearray | None = None  # the data fields of the event so far, each with a line break
        self._fields: dict[bytes, bytes] = {}
        self._held_bytes = 0
        self._after_cr = False
        self.resumable = False
        """True if an event had an id, so that the stream can be resumed after it."""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield each event that this chunk completes.

        Raises:
            ResponseTooLarge: An event is longer than the limit.
        """
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        if self._large is not None and self._large.given_up:
            raise stalled()
        first, *others = _LINE_BREAK.split(chunk)
        self._hold(first)
        for line in others:
            if (event := self._end_line()) is not None:
                yield event
            self._hold(line)
        self._check()

    def _check(self) -> None:
        if self._held_bytes > self._limit:
            raise too_large(self._limit)

    def _hold(self, part: bytes) -> None:
        self._held_bytes += len(part)
        if self._large is not None:
            self._large.add(part)
            return
        self._line += part
        if len(self._line) > LARGE_BYTES and self._data is None and self._line.startswith(_DATA):
            value = self._line[len(_DATA) :]
            self._large = self.body.large(value.removeprefix(b" "))
            self._line.clear()

    def _end_line(self) -> Event | None:
        if self._large is not None:
            self._whole, self._large = self._large, None
            self._whole.end()
            return None
        line = bytes(self._line)
        self._line.clear()
        if not line:
            return self._end_event()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data = bytearray() if self._data is None else self._data
            self._data += value + b"\n"
            return None
        self._held_bytes -= len(line)
        if field in _KEPT_FIELDS:
            self._held_bytes += len(value) - len(self._fields.get(field, b""))
            self._fields[field] = value
            self.resumable |= field == b"id" and bool(value)
        return None

    def _end_event(self) -> Event:
        self._check()
        data: bytes | LargeMessage | None = self._whole
        if self._data is not None:
            rest = bytes(memoryview(self._data)[:-1])
            data = rest if data is None else bytes(data) + b"\n" + rest
        self._whole = None
        event = Event(self._fields, data)
        self._data, self._fields = None, {}
        self._held_bytes = 0
        return event


class EventStream(httpx2.AsyncByteStream):
    """The body of an event stream. It never fails: it ends, and the reason goes to the exchange.

    The events are passed on whole; of an answer that its exchange takes as it came, an empty one. `find` is
    given where the stream has the answers to many requests.
    """

    def __init__(
        self,
        response: httpx2.Response,
        limit: int,
        observer: HttpLink | None,
        exchange: Exchange,
        redact: Redact,
        *,
        find: Find | None = None,
    ) -> None:
        self.end_reason = "the event stream ended"
        """Reason of its end, or the one it will have if nothing goes wrong."""
        self._response = response
        self._observer = observer
        self._exchange = exchange
        self._parser = EventParser(limit)
        self._redact = redact
        self._find = find
        self._left = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = inflated(self._response)
        try:
            while (chunk := await self._exchange.within_deadline(anext(body, None))) is not None:
                for event in self._parser.feed(chunk):
                    if passed := self._judge(event):
                        yield passed
                await self._parser.body.turn()
        except (ResponseTooLarge, MalformedMessage) as error:
            self.end_reason = f"the event stream was left: {error}"
            self._exchange.fail(error)
        except httpx2.HTTPError as error:
            self.end_reason = f"the event stream was dropped: {http_answers.describe(error, self._redact)}"
        if self._exchange.answer is None:
            self._end_without_answer()

    def leave(self, reason: str) -> None:
        """End it now, though there may be more to come; whoever needs it opens it again."""
        self.end_reason, self._left = f"the event stream was left: {reason}", True
        self._exchange.interrupt()

    def _end_without_answer(self) -> None:
        if self._observer is not None:
            self._observer.mark_suspect()
        if not self._parser.resumable:  # else the SDK resumes it, or reports that it could not
            kind = StreamLeft if self._left else ConnectionDropped
            self._exchange.fail(kind(f"{self.end_reason} before the answer"))

    def _judge(self, event: Event) -> bytes:
        """Return what is passed on of an event, after its exchange has taken its part."""
        if not event.is_message or event.data is None:
            return event.encode()
        exchange = self._exchange_of(event.data)
        try:
            answer, event.data = http_answers.take_message(event.data, raw=exchange.is_raw)
        except MalformedMessage as error:
            exchange.fail(error)
            event.data = http_answers.refuse(event.data, error)
        else:
            exchange.answer = answer or exchange.answer
            self._exchange.answer = answer or self._exchange.answer
        return event.encode()

    def _exchange_of(self, message: bytes | LargeMessage) -> Exchange:
        if self._find is None:
            return self._exchange
        return self._find(str(http_answers.answered_id(message))) or self._exchange

    def as_response(self) -> httpx2.Response:
        """The server's response, with this as its body."""
        headers = kept_headers(self._response)
        return httpx2.Response(self._response.status_code, headers=headers, stream=self)

    async def aclose(self) -> None:
        await self._response.aclose()


class StandaloneStream:
    """The stream of the server's own messages: opened again, after growing delays, whenever it ends or fails.

    `limit` is the longest event in bytes.
    """

    def __init__(self, limit: int, redact: Redact) -> None:
        self._limit = limit
        self._redact = redact
        self._opened_at: float | None = None
        self._failures = 0

    async def open(self, observer: HttpLink, request_stream: Open) -> httpx2.Response:
        """Wait for the stream; return a refusal without a body if the server is never going to have one."""
        if self._opened_at is not None:
            self._note_end(observer, self._opened_at)
        while True:
            if self._failures:
                await anyio.sleep(min(MIN_RETRY_DELAY_S * 2 ** (self._failures - 1), MAX_RETRY_DELAY_S))
            try:
                response = await request_stream()
            except httpx2.HTTPError:
                observer.mark_suspect()
            else:
                if is_event_stream(response):
                    return self._watched(response, observer)
                if not _is_temporary(response):
                    return await bare_response(response)
                await response.aclose()
            self._failures += 1

    def _note_end(self, observer: HttpLink, opened_at: float) -> None:
        stable = anyio.current_time() - opened_at >= STABLE_STREAM_S
        self._failures = 0 if stable else self._failures + 1
        observer.mark_suspect()

    def _watched(self, response: httpx2.Response, observer: HttpLink) -> httpx2.Response:
        if self._opened_at is not None:
            observer.events_missed()
        self._opened_at = anyio.current_time()
        return EventStream(response, self._limit, observer, Exchange(), self._redact).as_response()


def is_event_stream(response: httpx2.Response) -> bool:
    """True if the server has opened an event stream."""
    return response.is_success and http_answers.content_type(response) == "text/event-stream"


def _is_temporary(response: httpx2.Response) -> bool:
    """True if a stream that was refused may be granted later."""
    status = response.status_code
    if status == httpx2.codes.TOO_MANY_REQUESTS:
        return True
    return httpx2.codes.is_server_error(status) and status != httpx2.codes.NOT_IMPLEMENTED

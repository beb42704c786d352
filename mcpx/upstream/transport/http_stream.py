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

from mcpx.upstream.transport import http_answers
from mcpx.upstream.transport.exchange import ConnectionDropped, Exchange, LinkObserver
from mcpx.upstream.transport.http_answers import Redact
from mcpx.upstream.transport.http_network import bare_response, inflated, kept_headers, too_large
from mcpx.wire.outgoing import ResponseTooLarge, Unreadable

MAX_PARTIAL_BYTES: Final = 65536  # of an incomplete event, before they are passed on
STABLE_STREAM_S: Final = 10.0  # a stream that lived so long was a good one
MIN_RETRY_DELAY_S: Final = 0.5  # before a stream that broke at once is opened again; doubled each time
MAX_RETRY_DELAY_S: Final = 60.0
_LINE_BREAK: Final = re.compile(rb"\r\n|\n|\r")

Open = Callable[[], Awaitable[httpx2.Response]]


class EventParser:
    """Finds the messages in a stream of events; of an incomplete event it holds at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()  # the last line, as far as it has come
        self._data = bytearray()  # the data fields of the event so far, each with a line break
        self._kind = b""
        self._held_bytes = 0
        self._after_cr = False
        self.event_count = 0
        """How many events were completed, those without data too."""
        self.resumable = False
        """Whether an event had an id, so that the stream can be resumed after it."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of each message that this chunk completes.

        Raises:
            ResponseTooLarge: An event is longer than the limit.
        """
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        first, *others = _LINE_BREAK.split(chunk)
        self._hold(first)
        for line in others:
            if (data := self._end_line()) is not None:
                yield data
            self._hold(line)
        self._check()

    def _check(self) -> None:
        if self._held_bytes > self._limit:
            raise too_large(self._limit)

    def _hold(self, part: bytes) -> None:
        self._line += part
        self._held_bytes += len(part)

    def _end_line(self) -> bytes | None:
        line = bytes(self._line)
        self._line.clear()
        if not line:
            return self._end_event()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data += value + b"\n"
            return None
        self._held_bytes -= len(line)  # only data is kept
        if field == b"event":
            self._kind = value
        elif field == b"id" and value:
            self.resumable = True
        return None

    def _end_event(self) -> bytes | None:
        self._check()
        self.event_count += 1
        data = bytes(self._data[:-1])
        kind, self._kind = self._kind, b""
        self._data.clear()
        self._held_bytes = 0
        return data if data and kind in {b"", b"message"} else None


class EventStream(httpx2.AsyncByteStream):
    """The body of an event stream. It never fails: it ends, and the reason goes to the exchange."""

    def __init__(
        self,
        response: httpx2.Response,
        limit: int,
        observer: LinkObserver | None,
        exchange: Exchange,
        redact: Redact,
    ) -> None:
        self.end_reason = "the event stream ended"
        """How it ended, or will end if nothing goes wrong."""
        self._response = response
        self._observer = observer
        self._exchange = exchange
        self._parser = EventParser(limit)
        self._redact = redact

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = inflated(self._response)
        partial = bytearray()  # passed on in larger pieces: the SDK keeps each piece by itself
        try:
            while (chunk := await self._exchange.within_deadline(anext(body, None))) is not None:
                complete = self._parser.event_count
                for message in self._parser.feed(chunk):
                    self._inspect(message)
                partial += chunk
                if self._parser.event_count != complete or len(partial) >= MAX_PARTIAL_BYTES:
                    yield bytes(partial)
                    partial.clear()
        except (ResponseTooLarge, Unreadable) as error:
            self.end_reason = f"the event stream was left: {error}"
            self._exchange.fail(error)
        except httpx2.HTTPError as error:
            self.end_reason = f"the event stream was dropped: {http_answers.describe(error, self._redact)}"
        if partial:
            yield bytes(partial)
        if self._exchange.answer is None:
            self._end_without_answer()

    def _end_without_answer(self) -> None:
        if self._observer is not None:
            self._observer.mark_suspect()
        if not self._parser.resumable:  # else the SDK resumes it, or reports that it could not
            self._exchange.fail(ConnectionDropped(f"{self.end_reason} before the answer"))

    def _inspect(self, message: bytes) -> None:
        try:
            self._exchange.answer = http_answers.read_answer(message) or self._exchange.answer
        except Unreadable as error:
            self._exchange.fail(error)

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

    async def open(self, observer: LinkObserver, request_stream: Open) -> httpx2.Response:
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

    def _note_end(self, observer: LinkObserver, opened_at: float) -> None:
        stable = anyio.current_time() - opened_at >= STABLE_STREAM_S
        self._failures = 0 if stable else self._failures + 1
        observer.mark_suspect()

    def _watched(self, response: httpx2.Response, observer: LinkObserver) -> httpx2.Response:
        if self._opened_at is not None:
            observer.events_missed()
        self._opened_at = anyio.current_time()
        return EventStream(response, self._limit, observer, Exchange(), self._redact).as_response()


def is_event_stream(response: httpx2.Response) -> bool:
    """Whether the server has opened an event stream."""
    return response.is_success and http_answers.content_type(response) == "text/event-stream"


def _is_temporary(response: httpx2.Response) -> bool:
    """Whether a stream that was refused may be granted later."""
    status = response.status_code
    if status == httpx2.codes.TOO_MANY_REQUESTS:
        return True
    return httpx2.codes.is_server_error(status) and status != httpx2.codes.NOT_IMPLEMENTED

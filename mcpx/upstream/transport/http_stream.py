"""Event streams over HTTP: their bodies, watched as they go by; the session's own, opened again and again.

`Told` is what both say of the session they belong to; a link is one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol

import anyio
import httpx2
from mcp_types import JSONRPCError, JSONRPCResponse

from mcpx.upstream.transport import http_answers
from mcpx.upstream.transport.exchange import Dropped, Exchange, NotCarriedOut
from mcpx.upstream.transport.http_answers import Redact
from mcpx.upstream.transport.http_body import Events, inflated, kept_headers, without_body
from mcpx.wire.outgoing import MalformedMessage, ResponseTooLarge

PASSED_ON_BYTES: Final = 65536  # of an event that has not ended yet
STEADY_S: Final = 10.0  # a stream that lived so long was a good one
FIRST_PAUSE_S: Final = 0.5  # before a stream that broke at once is opened again; doubled each time
LONGEST_PAUSE_S: Final = 60.0

Open = Callable[[], Awaitable[httpx2.Response]]


class Told(Protocol):
    """Hears what HTTP exchanges say of a session."""

    established: bool
    """Whether the handshake is over."""
    lost: anyio.Event
    """Set when the session is over."""
    trouble: str | None
    """What was wrong with the last exchange; None while all is well."""
    curable: bool
    """Whether trying again can help."""

    def lose(self, reason: str) -> None:
        """The session is over."""
        ...

    def close(self, reason: str) -> None:
        """The server takes nothing new; it may finish what it has."""
        ...

    def fine(self) -> None:
        """An exchange went well."""
        ...

    def suspect(self) -> None:
        """There is reason to see whether the session still lives."""
        ...

    def missed(self) -> None:
        """Messages of the server's own may have been missed."""
        ...


def session_over(told: Told, reason: str, *, curable: bool = True) -> NotCarriedOut:
    """The session is over, and a request that met with this was not run."""
    told.trouble, told.curable = reason, curable
    if told.established:
        told.lose(reason)
    return NotCarriedOut(reason)


class EventBody(httpx2.AsyncByteStream):
    """The body of an event stream. It never fails: whatever happens, it ends, and the exchange is told."""

    def __init__(
        self,
        response: httpx2.Response,
        limit: int,
        told: Told | None,
        exchange: Exchange | None,
        redact: Redact,
    ) -> None:
        self.why = "the event stream ended"
        """How it ended, or will, if nothing else happens."""
        self._response = response
        self._told = told
        self._exchange = exchange or Exchange(lambda _error: None)
        self._events = Events(limit)
        self._redact = redact

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = inflated(self._response.aiter_raw(), self._response.headers.get("content-encoding", ""))
        kept = bytearray()  # of an event that has not ended; whoever decodes it keeps each chunk by itself
        try:
            while (chunk := await self._exchange.within(anext(body, None))) is not None:
                ended = self._events.ended
                for message in self._events.feed(chunk):
                    self._look_at(message)
                kept += chunk
                if self._events.ended != ended or len(kept) >= PASSED_ON_BYTES:
                    yield bytes(kept)
                    kept.clear()
        except (ResponseTooLarge, MalformedMessage) as error:
            self.why = f"the event stream was left: {error}"
            self._exchange.fail(error)
        except httpx2.HTTPError as error:
            self.why = f"the event stream was dropped: {http_answers.words(error, self._redact)}"
        if kept:
            yield bytes(kept)
        if not self._exchange.answered:
            self._end_without_answer()

    def _end_without_answer(self) -> None:
        if self._told is not None:
            self._told.suspect()
        if not self._events.resumable:  # else the SDK takes it up again, or says that it could not
            self._exchange.fail(Dropped(f"{self.why} before the answer"))

    def _look_at(self, data: bytes) -> None:
        try:
            message = http_answers.message_in(data)
        except MalformedMessage as error:
            self._exchange.fail(error)
        else:
            self._exchange.answered |= isinstance(message, JSONRPCResponse | JSONRPCError)

    def as_response(self) -> httpx2.Response:
        """The response of the server's, with this as its body."""
        response, headers = self._response, kept_headers(self._response)
        return httpx2.Response(response.status_code, headers=headers, stream=self, request=response.request)

    async def aclose(self) -> None:
        await self._response.aclose()


class Listening:
    """The stream of the server's own messages: opened again, in growing pauses, whenever it ends or fails."""

    def __init__(self) -> None:
        self._opened_at: float | None = None
        self._failures = 0

    async def open(self, told: Told, limit: int, opening: Open, redact: Redact) -> httpx2.Response:
        """The stream, as soon as there is one; or a refusal, where there is never going to be one."""
        if self._opened_at is not None:
            self._note_end(told)
        while True:
            if self._failures:
                await anyio.sleep(min(FIRST_PAUSE_S * 2 ** (self._failures - 1), LONGEST_PAUSE_S))
            try:
                response = await opening()
            except httpx2.HTTPError:
                told.suspect()
            else:
                if response.is_success and http_answers.content_type(response) == "text/event-stream":
                    return self._watched(response, limit, told, redact)
                if not _may_change(response):
                    return await without_body(response)
                await response.aclose()
            self._failures += 1

    def _note_end(self, told: Told) -> None:
        lived = anyio.current_time() - (self._opened_at or 0)
        self._failures = 0 if lived >= STEADY_S else self._failures + 1
        told.suspect()

    def _watched(self, response: httpx2.Response, limit: int, told: Told, redact: Redact) -> httpx2.Response:
        if self._opened_at is not None:
            told.missed()
        self._opened_at = anyio.current_time()
        return EventBody(response, limit, told, None, redact).as_response()


def _may_change(response: httpx2.Response) -> bool:
    """Whether it is worth asking again."""
    status = response.status_code
    if status == httpx2.codes.TOO_MANY_REQUESTS:
        return True
    return httpx2.codes.is_server_error(status) and status != httpx2.codes.NOT_IMPLEMENTED

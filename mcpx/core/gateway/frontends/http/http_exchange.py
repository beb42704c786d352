"""A request on a connection of MCPX's own, and the response, as it is written.

A response goes out as few writes as it can be: what is put in one turn of the loop is one system call. One
without a length is sent in chunks; to a client of HTTP/1.0, until the end of its connection. An exchange that
is cut off owes an error to the client of a call, whose outcome is unknown then; `cut_off` says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import unquote

import msgspec
from mcp_types import INTERNAL_ERROR

from mcpx.core.config.urls import is_loopback
from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.gateway.frontends.http.exchange import (
    COMMENT,
    EVENTS,
    JSON,
    PEERS,
    TEXT,
    HeaderPairs,
    Refusal,
    accepted,
    as_event,
)
from mcpx.core.servers.call_errors import FAILURE_KEY
from mcpx.core.wire import envelope
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.envelope import Bytes
from mcpx.errors import Code, Outcome

Address = tuple[str, int]
Pairs = list[tuple[bytes, bytes]]
LISTEN: Final = b"subscriptions/listen"
MAX_NOTED_BYTES: Final = 65536  # of a body, in which the id of a request that is cut off is looked for
MCPX_ENDS: Final = "MCPX ends; what was begun may or may not have taken effect"
_FAILED: Final = "MCPX failed; its log says more. What was begun may or may not have taken effect"
_METHOD: Final = b"mcp-method"
_NO_CONTENT: Final = frozenset({204, 304})


class Carrier(Protocol):
    """The connection that an exchange is on."""

    channel: Channel
    token: tuple[bytes, Any] | None
    """The Authorization that its last request was let in with, and whose it is."""

    @property
    def noted(self) -> dict[str, Any]:
        """For what is found out once for the whole connection."""
        ...

    def go_on(self, exchange: HttpExchange) -> None:
        """Ask for the body of a request that waits to be asked."""
        ...

    @property
    def ends(self) -> tuple[Address | None, Address | None]:
        """The addresses of the client and of this side; None for those of a client that has left."""
        ...

    @property
    def is_last(self) -> bool:
        """True if the connection ends with its next response."""
        ...

    def send(self, *pieces: Bytes) -> None:
        """Write to the client."""
        ...

    def drop(self) -> None:
        """Note that something was not sent, for the client does not read."""
        ...

    def finished(self, *, closes: bool) -> None:
        """Note that the response to the request that was served is whole, and the last one if `closes`."""
        ...

    async def wait_taken(self) -> None:
        """Wait while the client leaves too much unread."""
        ...


class HttpExchange:
    """A request on a connection of MCPX's own, whose body follows its head."""

    __slots__ = (
        "_begun",
        "_carrier",
        "_gone",
        "_is_http_1_0",
        "_is_over",
        "bearer",
        "body",
        "counted",
        "headers",
        "in_chunks",
        "keep_alive",
        "method",
        "more_headers",
        "pairs",
        "path",
        "query",
        "refusal",
        "target",
    )

    def __init__(
        self,
        carrier: Carrier,
        method: str,
        target: bytes,
        pairs: Pairs,
        *,
        is_http_1_0: bool,
        keep_alive: bool,
    ) -> None:
        path, _, self.query = target.partition(b"?")
        self.path = unquote(path.decode("latin-1")) if b"%" in path else path.decode("latin-1")
        self.method = method
        self.target = path
        """The path as it came."""
        self.pairs = pairs
        """The headers as they came, their names in lower case."""
        self.headers: Mapping[bytes, bytes] = dict(pairs)
        self.body = b""
        self.bearer: Bearer | None = None
        self.refusal: Refusal | None = None
        """The response in the place of the endpoint's."""
        self.more_headers = b""
        """Lines for the head of the response."""
        self.counted = 0
        """Bytes of the body in the sum of all."""
        self.keep_alive = keep_alive and not is_http_1_0
        self.in_chunks = False
        self._is_http_1_0 = is_http_1_0
        self._carrier = carrier
        self._gone: Callable[[], None] | None = None
        self._begun: bytes | None = None  # the content type of the response
        self._is_over = False

    @property
    def repeated(self) -> bool:
        """True if any header came more than once."""
        return len(self.headers) != len(self.pairs)

    @property
    def accepts(self) -> tuple[bool, bool]:
        """Return if the client takes JSON, and if it takes a stream of events."""
        if self.repeated:
            return accepted(b",".join(value for name, value in self.pairs if name == b"accept"))
        return accepted(self.headers.get(b"accept", b""))

    @property
    def ends(self) -> tuple[Address | None, Address | None]:
        """The addresses of the client and of this side."""
        return self._carrier.ends

    @property
    def is_local(self) -> bool:
        """True if it came from this machine."""
        return all(end is not None and is_loopback(end[0]) for end in self.ends)

    @property
    def carrier(self) -> Carrier:
        """The connection."""
        return self._carrier

    @property
    def is_over(self) -> bool:
        """True if nothing more can be sent."""
        return self._is_over

    @property
    def is_listening(self) -> bool:
        """True if a client listens on it until it leaves."""
        if self.method == "GET":
            return self._begun is not None and self._begun.startswith(EVENTS[0][1])
        return self.headers.get(_METHOD) == LISTEN

    async def wait_taken(self) -> None:
        """Wait while the client leaves too much unread."""
        await self._carrier.wait_taken()

    # --- the response

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Have this called if the exchange is cut off."""
        self._gone = callback

    def respond(self, status: int, headers: HeaderPairs = (), pieces: Iterable[Bytes] = ()) -> None:
        """Send a whole response."""
        if self._is_over:
            return
        body = [*pieces]
        head = self._head(status, headers, sum(map(len, body)))
        if self.method == "HEAD":
            self._carrier.send(head)
        else:
            self._carrier.send(head, *body)
        self._finish()

    def respond_with(self, refusal: Refusal) -> None:
        """Send a whole response that is a text."""
        self.respond(refusal.status, refusal.headers, [refusal.text])

    def begin(self, status: int, headers: HeaderPairs, length: int | None = None) -> None:
        """Begin a response whose body follows in parts."""
        if self._is_over:
            return
        self._carrier.send(self._head(status, headers, length))
        if self.is_listening:  # for long, and thousands do: it needs nothing of its request any more
            self.pairs, self.headers = [], {_METHOD: LISTEN}

    def put(self, *pieces: Bytes) -> bool:
        """Send a part of the body; false if nothing more can be sent."""
        if self._is_over:
            return False
        self._put(pieces)
        return True

    def finish(self, *pieces: Bytes) -> None:
        """End the response, with a last part."""
        if self._is_over:
            return
        self._put(pieces)
        if self.in_chunks and self.method != "HEAD":
            self._carrier.send(b"0\r\n\r\n")
        self._finish()

    def begin_events(self, headers: HeaderPairs = EVENTS) -> None:
        """Begin a stream of events."""
        self.begin(200, headers)

    def event(
        self, pieces: Iterable[Bytes], *, event_id: str = "", retry_ms: int | None = None, lossy: bool = False
    ) -> bool:
        """Send an event, unless it is lossy and the client does not read."""
        if lossy and self.drops_lossy():
            return False
        return self.put(as_event(pieces, event_id, retry_ms))

    def drops_lossy(self) -> bool:
        """Return True if a lossy event is not to be sent, for the client does not read, and count it."""
        if self._carrier.channel.congested:
            self._carrier.drop()
            return True
        return False

    def comment(self) -> None:
        """Send a comment."""
        self.put(COMMENT)

    def end(self, pieces: Iterable[Bytes] | None = None, *, event_id: str = "") -> None:
        """End the stream."""
        self.finish(*(() if pieces is None else (as_event(pieces, event_id),)))

    def _head(self, status: int, headers: HeaderPairs, length: int | None) -> bytes:
        if self._begun is not None:
            raise RuntimeError("a response that has begun cannot begin again")
        self._begun = headers[0][1] if headers else b""
        lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
        if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
            raise ValueError("a header of the response holds the end of a line")
        if length is not None:
            framing = b"" if status in _NO_CONTENT else b"content-length: %d\r\n" % length
        elif self._is_http_1_0:
            framing = b""
        else:
            self.in_chunks = True
            framing = b"transfer-encoding: chunked\r\n"
        if not self.keep_alive or self._carrier.is_last:
            self.keep_alive = False
            framing += b"connection: close\r\n"
        return b"%b%b%b%b%b\r\n" % (_status_line(status), _date(), lines, self.more_headers, framing)

    def _put(self, pieces: tuple[Bytes, ...]) -> None:
        length = sum(map(len, pieces))
        if length == 0 or self.method == "HEAD":
            return
        if self.in_chunks:
            self._carrier.send(b"%x\r\n" % length, *pieces, b"\r\n")
        else:
            self._carrier.send(*pieces)

    def _finish(self) -> None:
        if self._is_over:  # the connection has ended with what was sent
            return
        self._is_over = True
        self._gone = None
        self._carrier.finished(closes=not self.keep_alive or self._carrier.is_last)

    # --- its end before its time

    def leave(self) -> None:
        """Cut it off: the client has left."""
        if not self._is_over:
            self._is_over = True
            self._tell_gone()

    def cut_off(self, why: str = MCPX_ENDS) -> None:
        """Cut it off, and say so to a client that waits for an answer."""
        if self._is_over:
            return
        self._is_over = True
        self._tell_gone()
        self._is_over = False
        is_owed = self.method == "POST" and not self.is_listening
        if self._begun is None:
            self.respond(500 if is_owed else 503, JSON, [self._error(why)] if is_owed else ())
        elif is_owed and self._begun == EVENTS[0][1]:
            self.end([self._error(why)])
        else:
            self.keep_alive &= self.in_chunks  # else the client waits for the rest
            self.finish()

    def fail(self) -> None:
        """Respond to a request that MCPX has failed to serve."""
        if self._begun is None:
            self.respond(500, TEXT, [b"Internal Server Error"])
        else:
            self.cut_off(_FAILED)

    def _tell_gone(self) -> None:
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()

    def _error(self, why: str) -> bytes:
        data: dict[str, Any] = {"code": str(Code.CANCELLED), "outcome": str(Outcome.UNKNOWN)}
        if self.path.startswith(PEERS):
            data = {FAILURE_KEY: data}
        error = {"code": INTERNAL_ERROR, "message": why, "data": data}
        return envelope.encode({"jsonrpc": "2.0", "id": self._request_id(), "error": error})

    def _request_id(self) -> Any:
        if len(self.body) > MAX_NOTED_BYTES:
            return None
        try:
            return envelope.decode_message(self.body).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # a batch, or no message
            return None


@lru_cache(maxsize=64)
def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


def _date() -> bytes:
    """The line of a response that has the time, which is made once a second."""
    return _date_at(int(time.time()))


@lru_cache(maxsize=1)
def _date_at(seconds: int) -> bytes:
    return b"date: %b\r\n" % formatdate(seconds, usegmt=True).encode()

"""A request on a connection, and its response, as the endpoints see it.

The endpoints of `/mcp` are given an `HttpExchange` once its request is whole and was let in: the head and the
body came in time and within their bounds, `Host`, `Origin`, the token, and the `Content-Type` of a POST fit.
They respond at once or later, by plain calls, which never wait and never raise because of the client: what
goes to one that has left goes nowhere. An exchange that is cut off (its client left, its token ended, MCPX
ends) is over for them when `on_gone` is called. What is still owed to the client of a call, whose outcome is
unknown then, `cut_off` says.

A response goes out as few writes as it can be: what is put in one turn of the loop is one system call. One
without a length is sent in chunks; to a client of HTTP/1.0, until the end of its connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec

from mcpx.core.gateway.frontends.http.exchange import (
    COMMENT,
    EVENTS,
    JSON,
    PEERS,
    TEXT,
    HeaderPairs,
    Pairs,
    Refusal,
    RequestHead,
    as_event,
)
from mcpx.core.servers.call_errors import FAILURE_KEY
from mcpx.core.wire import envelope
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.envelope import INTERNAL_ERROR, Bytes
from mcpx.errors import Code, Outcome

Address = tuple[str, int]
Pieces = tuple[Bytes, ...]
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LISTEN: Final = b"subscriptions/listen"
MAX_NOTED_BYTES: Final = 65536  # of a body, in which the id of a request that is cut off is looked for
MCPX_ENDS: Final = "MCPX ends; what was begun may or may not have taken effect"
_FAILED: Final = "MCPX failed; its log says more. What was begun may or may not have taken effect"
_METHOD: Final = b"mcp-method"
_OK: Final = 200
_NO_CONTENT: Final = frozenset({204, 304})
_LINE_END: Final = b"}\n"


class Carrier(Protocol):
    """The connection that an exchange is on."""

    channel: Channel
    token: tuple[bytes, Any] | None
    """The Authorization that its last request was let in with, and whose it is."""

    @property
    def noted(self) -> dict[str, Any]:
        """For what is found out once for the whole connection."""

    def go_on(self, exchange: HttpExchange) -> None:
        """Ask for the body of a request that waits to be asked."""

    @property
    def ends(self) -> tuple[Address | None, Address | None]:
        """The addresses of the client and of this side; None for those of a client that has left."""

    @property
    def is_local(self) -> bool:
        """True if the client is on this machine."""

    @property
    def is_last(self) -> bool:
        """True if the connection ends with its next response."""

    def send(self, *pieces: Bytes) -> None:
        """Write to the client."""

    def drop(self) -> None:
        """Note that something was not sent, for the client does not read."""

    def finished(self, *, closes: bool) -> None:
        """Note that the response to the request that was served is whole, and the last one if `closes`."""

    async def wait_taken(self) -> None:
        """Wait while the client leaves too much unread."""


class HttpExchange:
    """A request on a connection of MCPX's own, whose body follows its head."""

    __slots__ = (
        "_begun",
        "_gone",
        "bearer",
        "body",
        "carrier",
        "counted",
        "head",
        "headers",
        "in_chunks",
        "is_from_afar",
        "is_over",
        "keep_alive",
        "method",
        "path",
        "refusal",
        "rewrite",
    )

    def __init__(self, carrier: Carrier, head: RequestHead) -> None:
        self.head = head
        self.method = head.method
        self.path = head.path
        self.headers = head.headers
        self.body = b""
        self.bearer = head.bearer
        """The token with a name that let it in."""
        self.refusal: Refusal | None = None
        """The response in the place of the endpoint's."""
        self.counted = 0
        """Bytes of the body in the sum of all."""
        self.keep_alive = head.keep_alive
        self.in_chunks = False
        self.is_from_afar = False
        """True if it was passed on for a client that is not on this machine."""
        self.rewrite: Callable[[bytes], bytes] | None = None
        """Changes each part of the response's body before it is sent."""
        self.carrier = carrier
        self._gone: Callable[[], None] | None = None
        self._begun: bytes | None = None  # the content type of the response
        self.is_over = False
        """True if nothing more can be sent."""

    @property
    def repeated(self) -> bool:
        """True if any header came more than once."""
        return self.head.repeated

    @property
    def pairs(self) -> Pairs:
        """All headers as they came, the names in lower case."""
        return self.head.pairs

    @property
    def is_local(self) -> bool:
        """True if it came from this machine."""
        return not self.is_from_afar and self.carrier.is_local

    @property
    def is_listening(self) -> bool:
        """True if a client listens on it until it leaves."""
        if self.method == "GET":
            return self._begun is not None and self._begun.startswith(EVENTS[0][1])
        return self.headers.get(_METHOD) == LISTEN

    # --- the response

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Have this called if the exchange is cut off."""
        self._gone = callback

    def respond(self, status: int, headers: HeaderPairs = (), pieces: Iterable[Bytes] = ()) -> None:
        """Send a whole response."""
        if self.is_over:
            return
        body = [*pieces]
        if self.rewrite is not None:
            body = [self.rewrite(b"".join(body))]
        head = self._head(status, headers, sum(map(len, body)))
        if self.method == "HEAD":
            self.carrier.send(head)
        else:
            self.carrier.send(head, *body)
        if not self.is_over:  # else the connection has ended with what was sent
            self.is_over, self._gone = True, None
            self.carrier.finished(closes=not self.keep_alive)

    def respond_message(self, pieces: Pieces, headers: HeaderPairs = (), status: int = _OK) -> None:
        """Respond with one message: as JSON, or as one event where the client would rather have that."""
        if pieces[-1] == _LINE_END:
            pieces = (*pieces[:-1], b"}")
        if self.head.takes_json or status != _OK:
            self.respond(status, JSON + headers, pieces)
        else:
            self.respond(status, EVENTS + headers, (as_event(pieces),))

    def respond_with(self, refusal: Refusal) -> None:
        """Send a whole response that is a text."""
        self.respond(refusal.status, refusal.headers, [refusal.text])

    def begin(self, status: int, headers: HeaderPairs, length: int | None = None) -> None:
        """Begin a response whose body follows in parts."""
        if self.is_over:
            return
        self.carrier.send(self._head(status, headers, length))
        if self.is_listening:  # for long, and thousands do: it needs nothing of its request any more
            self.head, self.headers = _LISTENING, _LISTENING.headers

    def put(self, *pieces: Bytes) -> bool:
        """Send a part of the body; false if nothing more can be sent."""
        if self.is_over:
            return False
        self._put(pieces)
        return True

    def finish(self, *pieces: Bytes) -> None:
        """End the response, with a last part."""
        if self.is_over:
            return
        self._put(pieces)
        if self.in_chunks and self.method != "HEAD":
            self.carrier.send(b"0\r\n\r\n")
        if not self.is_over:
            self.is_over, self._gone = True, None
            self.carrier.finished(closes=not self.keep_alive or self.carrier.is_last)

    def begin_events(self, headers: HeaderPairs = EVENTS) -> None:
        """Begin a stream of events."""
        self.begin(_OK, headers)

    def event(
        self, pieces: Iterable[Bytes], *, event_id: str = "", retry_ms: int | None = None, lossy: bool = False
    ) -> bool:
        """Send an event, unless it is lossy and the client does not read."""
        if lossy and self.drops_lossy():
            return False
        return self.put(as_event(pieces, event_id, retry_ms))

    def drops_lossy(self) -> bool:
        """Return True if a lossy event is not to be sent, for the client does not read, and count it."""
        if self.carrier.channel.congested:
            self.carrier.drop()
            return True
        return False

    def end(self, pieces: Iterable[Bytes] | None = None, *, event_id: str = "") -> None:
        """End the stream."""
        self.finish(*(() if pieces is None else (as_event(pieces, event_id),)))

    def _head(self, status: int, headers: HeaderPairs, length: int | None) -> bytes:
        if self._begun is not None:
            raise RuntimeError("a response that has begun cannot begin again")
        self._begun = headers[0][1] if headers else b""
        if length is not None:
            framing = b"" if status in _NO_CONTENT else b"content-length: %d\r\n" % length
        elif self.head.is_http_1_0:
            framing = b""
        else:
            self.in_chunks = True
            framing = b"transfer-encoding: chunked\r\n"
        if not self.keep_alive or self.carrier.is_last:
            self.keep_alive = False
            framing += b"connection: close\r\n"
        begin, date = _status_line(status), _date(int(time.time()))
        return b"%b%b%b%b%b\r\n" % (begin, date, _lines(headers), self.head.more_headers, framing)

    def _put(self, pieces: tuple[Bytes, ...]) -> None:
        if self.rewrite is not None:
            pieces = (self.rewrite(b"".join(pieces)),)
        length = sum(map(len, pieces))
        if length == 0 or self.method == "HEAD":
            return
        if self.in_chunks:
            self.carrier.send(b"%x\r\n" % length, *pieces, b"\r\n")
        else:
            self.carrier.send(*pieces)

    def knock(self) -> None:
        """Send something that means nothing."""
        if self._begun is None:
            self.carrier.send(CONTINUE)
        elif self._begun == EVENTS[0][1]:
            self.put(COMMENT)

    # --- its end before its time

    def leave(self) -> None:
        """Cut it off: the client has left."""
        if not self.is_over:
            self.is_over = True
            self._tell_gone()

    def cut_off(self, why: str = MCPX_ENDS) -> None:
        """Cut it off, and say so to a client that waits for an answer."""
        if self.is_over:
            return
        self.is_over = True
        self._tell_gone()
        self.is_over = False
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


_LISTENING: Final = RequestHead("GET", b"", [(_METHOD, LISTEN)], is_http_1_0=False, keep_alive=True)
"""In the place of the head of a request on which a client listens."""


@lru_cache(maxsize=64)
def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


@lru_cache(maxsize=256)
def _lines(headers: HeaderPairs) -> bytes:
    lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
        raise ValueError("a header of the response holds the end of a line")
    return lines


@lru_cache(maxsize=1)
def _date(seconds: int) -> bytes:
    return b"date: %b\r\n" % formatdate(seconds, usegmt=True).encode()

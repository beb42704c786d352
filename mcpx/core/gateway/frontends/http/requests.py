"""From the bytes of one connection to its HTTP requests, within bounds on their size and their sum.

httptools (the parser of Node.js) reads, strictly: what two readers could take for different requests is
refused (two lengths, a length and chunks, folded or bare lines, white space before a colon, and the like),
and nothing behind it is read. The site looks at a request as soon as its head is there, so that nobody waits
for the body of one that is not let in. A request to change the protocol is read as one that does not ask for
that.

Clients send the same head again and again. One that was read, and let in, stands for the next that is the
same byte for byte but for the digits of its length, if it begins where a request must, and its body is all
there: what the parser would say of it is known.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, Protocol

import structlog
from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.gateway.frontends.http.exchange import Pairs, Refusal, RequestHead
from mcpx.core.gateway.frontends.http.http_exchange import Carrier, HttpExchange
from mcpx.core.telemetry.contained import contain

log = structlog.get_logger()
MAX_HEAD_BYTES: Final = 65536  # a browser brings the cookies of every program of this computer
MAX_HEADERS: Final = 128  # of a request, and behind its body; a browser has twenty
MAX_WAITING: Final = 16  # requests of one connection, which no client of MCP sends without waiting
MIN_COUNTED_BYTES: Final = 65536  # of a body; smaller ones do not count in the sum
_ONCE: Final = frozenset(
    {b"host", b"origin", b"authorization", b"content-type", b"transfer-encoding", b"mcp-session-id"}
)
_LENGTH: Final = b"content-length"
_ENCODING: Final = b"transfer-encoding"
_LENGTH_LINE: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_MAX_DIGITS: Final = 9
_NO_HEAD: Final = RequestHead("GET", b"/", [], is_http_1_0=False, keep_alive=False)
_MALFORMED: Final = Refusal(400, b"Invalid HTTP request received.")
_NO_HOST: Final = Refusal(400, b"A request names its Host, once")
_TWICE: Final = Refusal(400, b"A header stands there twice")
_ENCODED: Final = Refusal(501, b"A body can be in chunks, and in no other encoding")
_OTHER_VERSION: Final = Refusal(505, b"This version of HTTP is not served here")
_TOO_MANY: Final = Refusal(503, b"Too many requests on a connection at a time; wait for the responses")
_HEAD_TOO_LARGE: Final = Refusal(431, b"The head of the request is too large")
_TOO_LARGE: Final = Refusal(413, b"Request body too large")
_FAILED: Final = Refusal(500, b"Internal Server Error")
_FULL: Final = Refusal(503, b"Too many large requests at a time; nothing was done, try again later")


class Site(Protocol):
    """The addresses that are served on a connection."""

    def look(self, exchange: HttpExchange) -> Refusal | None:
        """Return the refusal of a request by its head; None for one that is let in."""

    def is_valid(self, bearer: Bearer) -> bool:
        """Return True if a bearer still lets in: all there is to look at for a head that is steady."""

    def serve(self, exchange: HttpExchange) -> None:
        """Respond to a request that is whole, at once or later."""


class _Known(NamedTuple):
    """A head that was let in, as it came: before the digits of its length, and behind them."""

    before: bytes
    behind: bytes
    head: RequestHead


class _Stop(Exception):
    """Ends what the parser does with the bytes it has, with the refusal of what they are."""


class Bodies:
    """The bodies of all requests of one server: one has at most `limit` bytes, all together twice that."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.max_bytes = 2 * limit
        self.bytes = 0

    def count(self, exchange: HttpExchange, more: int) -> bool:
        """Count more bytes of a request; false if that is too much."""
        before = exchange.counted
        exchange.counted += more
        if exchange.counted > MIN_COUNTED_BYTES:
            self.bytes += more if before > MIN_COUNTED_BYTES else exchange.counted
        return exchange.counted <= MIN_COUNTED_BYTES or self.bytes <= self.max_bytes

    def release(self, exchange: HttpExchange) -> None:
        """Count a request no longer."""
        if exchange.counted > MIN_COUNTED_BYTES:
            self.bytes -= exchange.counted
        exchange.counted = 0


_NO_PAIRS: Final[Pairs] = []  # of connections that wait for a request; never added to


class RequestReader:
    """Reads the requests of one connection. After `stops` it takes nothing more."""

    __slots__ = (
        "_bodies",
        "_body",
        "_carrier",
        "_known",
        "_pairs",
        "_parser",
        "_silent_bytes",
        "_site",
        "_target",
        "incoming",
        "is_new",
        "part",
        "stops",
        "stops_within",
        "waiting",
    )

    def __init__(self, carrier: Carrier, site: Site, bodies: Bodies) -> None:
        self.waiting: list[HttpExchange] = []
        """Requests that are whole, or are refused, in their order."""
        self.is_new = True
        """True if no head has come yet."""
        self.part: Literal["head", "body"] | None = None
        """The part of a request that has begun and is not whole."""
        self.stops = False
        self.stops_within = False
        """True if it has stopped where the client may still be sending."""
        self.incoming: HttpExchange | None = None
        """The request whose body is coming."""
        self._carrier = carrier
        self._site = site
        self._bodies = bodies
        self._parser: HttpRequestParser | None = None  # while there is something to read
        self._known: _Known | None = None
        self._target = b""
        self._pairs: Pairs = _NO_PAIRS
        self._silent_bytes = 0  # of what has come in pieces, since the last one of a body
        self._body: bytes | bytearray = b""

    def feed(self, data: bytes) -> None:
        """Read more."""
        if self.part is None:
            if self._known is not None and self._is_known(data, *self._known):
                return
            self._parse(data)
            if len(self.waiting) == 1 and self.waiting[0].head.is_steady:
                self._known = _known(data, self.waiting[0])
        else:
            length = len(self._body)
            self._silent_bytes += len(data)
            self._parse(data)
            if len(self._body) > length:
                self._silent_bytes = 0
        if self.part is not None and self._silent_bytes > MAX_HEAD_BYTES:
            self.refuse(_HEAD_TOO_LARGE)
        elif self.incoming is not None and not self._bodies.count(self.incoming, len(data)):
            log.warning("http.bodies_full", bytes=self._bodies.bytes)
            self.refuse(_FULL)

    def close(self) -> None:
        """Let go of the connection, and of what has not come whole."""
        self.stops = True
        if self.incoming is not None:
            self._bodies.release(self.incoming)
            self.incoming = None

    def refuse(self, refusal: Refusal) -> None:
        """Take nothing more; respond with this to what is coming, after what came before."""
        exchange = self.incoming
        if exchange is None:
            exchange = HttpExchange(self._carrier, _NO_HEAD)
        exchange.refusal, exchange.keep_alive = refusal, False
        self.waiting.append(exchange)
        self.incoming, self._body, self.part = None, b"", None
        self.stops = self.stops_within = True

    def rest(self) -> None:
        """Hold no more than is needed to wait for the next request, if nothing of it has come."""
        if self.part is None:
            self._parser = self._known = None
            self._target, self._pairs = b"", _NO_PAIRS

    def _is_known(self, data: bytes, before: bytes, behind: bytes, head: RequestHead) -> bool:
        """Take one whole request with a head that is known; False if it is anything else."""
        if not data.startswith(before):
            return False
        at = len(before)
        end = data.find(b"\r", at, at + _MAX_DIGITS + 1)
        digits = data[at:end]
        if not digits.isdigit() or end < at or not data.startswith(behind, end):
            return False
        start, length = end + len(behind), int(digits)
        if len(data) - start != length or length > self._bodies.limit:
            return False
        if head.bearer is not None and not self._site.is_valid(head.bearer):
            return False
        exchange = HttpExchange(self._carrier, head)
        exchange.body = data[start:]
        self.waiting.append(exchange)
        return True

    def _parse(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            parser = self._parser = HttpRequestParser(self)
        try:
            parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except HttpParserCallbackError as error:  # from one of ours, below
            cause = error.__context__ or error
            if not isinstance(cause, _Stop):
                contain(cause, "http")
            if not self.stops:
                self.refuse(cause.args[0] if isinstance(cause, _Stop) else _FAILED)
        except HttpParserError:
            if not self.stops:
                self.refuse(_MALFORMED)

    def _decline_upgrade(self, rest: bytes) -> None:
        """Read the head again, without the wish for another protocol (RFC 9110, 7.8), and what follows."""
        parser = self._parser
        if self.stops or parser is None:
            return
        method, version = parser.get_method(), parser.get_http_version()
        if method == b"CONNECT":
            self.refuse(_MALFORMED)
            return
        kept = [pair for pair in self._pairs if pair[0] not in {b"upgrade", b"connection"}]
        if not parser.should_keep_alive():
            kept.append((b"connection", b"close"))
        lines = b"".join([b"%b: %b\r\n" % pair for pair in kept])
        self._parser = HttpRequestParser(self)
        self._parse(b"%b %b HTTP/%b\r\n%b\r\n%b" % (method, self._target, version.encode(), lines, rest))

    # --- called by the parser

    def on_message_begin(self) -> None:
        """Begin a request."""
        if len(self.waiting) >= MAX_WAITING:
            raise _Stop(_TOO_MANY)
        self.part = "head"
        self._target = b""
        self._silent_bytes, self._pairs = 0, []

    def on_url(self, url: bytes) -> None:
        """Take a part of its target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one behind the body goes nowhere."""
        if len(self._pairs) >= MAX_HEADERS:
            raise _Stop(_HEAD_TOO_LARGE)
        self._pairs.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        """Look at a request by its head."""
        parser = self._parser
        if parser is None or self.stops or parser.should_upgrade():
            return
        version, pairs = parser.get_http_version(), self._pairs
        method, keeps = parser.get_method().decode(), parser.should_keep_alive()
        head = RequestHead(method, self._target, pairs, is_http_1_0=version != "1.1", keep_alive=keeps)
        exchange = HttpExchange(self._carrier, head)
        self.incoming, self.part, self.is_new = exchange, "body", False
        self._silent_bytes, self._pairs = 0, []
        if (problem := _misread(head, version)) is not None:
            self.refuse(problem)
            return
        exchange.refusal = refusal = self._site.look(exchange) or self._too_long(exchange)
        if refusal is not None and (refusal is _TOO_LARGE or _is_large(exchange)):
            self.refuse(refusal)
        elif exchange.headers.get(b"expect", b"").lower() == b"100-continue" and version == "1.1":
            self._carrier.go_on(exchange)

    def on_body(self, part: bytes) -> None:
        """Take a part of the body."""
        if self.incoming is None:
            return
        if not self._body:
            self._body = part
        elif isinstance(self._body, bytearray):
            self._body += part
        else:
            self._body = bytearray(self._body) + part
        if len(self._body) > self._bodies.limit:
            self.refuse(_TOO_LARGE)

    def on_message_complete(self) -> None:
        """Take a request that is whole."""
        exchange = self.incoming
        if exchange is not None:
            exchange.body = bytes(self._body)
            self.incoming, self._body, self.part = None, b"", None
            self.waiting.append(exchange)
            self.stops = not exchange.keep_alive

    def _too_long(self, exchange: HttpExchange) -> Refusal | None:
        length = exchange.headers.get(_LENGTH)
        return _TOO_LARGE if length is not None and int(length) > self._bodies.limit else None


def _is_large(exchange: HttpExchange) -> bool:
    """Return True if the body of a request may be more than it is worth to read for its refusal."""
    headers = exchange.headers
    return _ENCODING in headers or b"expect" in headers or int(headers.get(_LENGTH, b"0")) > MIN_COUNTED_BYTES


def _known(data: bytes, exchange: HttpExchange) -> _Known | None:
    """The head of a request that was all of `data`; None where the next one might be read otherwise."""
    head = exchange.head
    end = data.find(b"\r\n\r\n")
    length = _LENGTH_LINE.search(data, 0, end + 2)
    if length is None or not len(exchange.body) == len(data) - end - 4 == int(length[1]):
        return None
    if exchange.refusal is not None or not exchange.keep_alive:
        return None
    if data.count(b"\r\n", 0, end) != len(head.pairs):  # it was not read as it stands
        return None
    return _Known(data[: length.start(1)], data[length.end(1) : end + 4], head)


def _misread(head: RequestHead, version: str) -> Refusal | None:
    """The refusal of what others might read in another way, or what is not served at all."""
    headers = head.headers
    if version not in {"1.1", "1.0"}:
        return _OTHER_VERSION
    if head.repeated:
        names = [name for name, _ in head.pairs if name in _ONCE]
        if len(names) != len(set(names)):
            return _TWICE
    lines = sum(len(name) + len(value) for name, value in head.pairs)
    if len(head.target) + len(head.query) + lines > MAX_HEAD_BYTES:
        return _HEAD_TOO_LARGE
    if b"host" not in headers and version == "1.1":
        return _NO_HOST
    if _ENCODING in headers and (version != "1.1" or headers[_ENCODING].lower() != b"chunked"):
        return _ENCODED
    return None

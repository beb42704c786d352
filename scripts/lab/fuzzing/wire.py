"""Targets on the wire: lines, envelopes, events of streams, and heads of HTTP on both sides.

What comes in pieces is fed whole and in pieces, and has to be read alike.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import socket
from collections.abc import Hashable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

import msgspec

from mcpx.core.gateway.frontends.http.exchange import Refusal
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.gateway.frontends.http.requests import Bodies, RequestReader
from mcpx.core.servers.transport.exchange import Dropped
from mcpx.core.servers.transport.http_answers import EventParser, one_event
from mcpx.core.servers.transport.http_connection import Head, HttpConnection
from mcpx.core.telemetry.contained import contained
from mcpx.core.wire import batch, envelope, malformed
from mcpx.core.wire.lines import KEPT_BYTES, Line, LineSplitter, TooLong
from scripts.lab.fuzzing.loop import Target, pieces

LIMIT: Final = 300  # bytes of a line or an event, so that inputs come over it

# --- lines


def check_lines(data: bytes) -> Hashable:
    """Whole lines, in order, whatever the pieces; one that is too long is told once, with its ends."""
    expected: list[Line] = []
    for raw in data.split(b"\n")[:-1]:
        if len(raw) > LIMIT:
            expected.append(TooLong(raw[:KEPT_BYTES], raw[-KEPT_BYTES:], LIMIT))
        elif line := raw.strip():
            expected.append(line)
    for fed in ([data], pieces(data)):
        splitter = LineSplitter(LIMIT)
        found = [line for piece in fed for line in splitter.feed(piece)]
        assert _lines(found) == _lines(expected)
    return tuple(type(line).__name__ for line in expected[:8]), len(expected) > 8  # noqa: PLR2004 - enough


def _lines(lines: list[Line]) -> list[object]:
    return ["too long" if isinstance(line, TooLong) else bytes(line) for line in lines]


# --- envelopes

_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def check_envelopes(line: bytes) -> Hashable:
    """A message is read, or answered as malformed in JSON; quick looks agree with decoding."""
    message: envelope.RPCMessage | None = None
    error: Exception | None = None
    try:
        message = envelope.decode_message(line)
    except _UNREADABLE as raised:
        error = raised
    if (quick := envelope.split_request(line)) is not None and message is not None and quick.id is not None:
        assert quick.id == message.id or line.count(b'"id"') > 1, "two readings of an id"
    if (large := envelope.split_large(line)) is not None and message is not None:
        assert (large.id, large.method) == (message.id, message.method), "two readings of an envelope"
    for part in (message.params, message.result, message.error) if message is not None else ():
        with suppress(*_UNREADABLE):
            token, members = envelope.split_progress(part)
            assert envelope.split_progress(envelope.progress(token, members)) == (token, members)
    for mended in (
        malformed.mend_lone_surrogates(line),
        malformed.mend_numbers(line),
        malformed.shallow(line),
    ):
        assert mended is None or len(mended) <= 4 * len(line) + 16  # `null` for a bracket
    for each in batch.split_if_any(line):
        batch.read(each)
    answer = b"".join(bytes(piece) for piece in malformed.unreadable(line))
    if answer:
        told = json.loads(answer)
        assert told["jsonrpc"] == "2.0"
        assert told["error"]["message"].startswith("MCPX cannot read this message: ")
    kind = type(error).__name__, str(error).partition(" - at")[0][:60] if error else ""
    return kind, message is not None and (message.method is not None, message.is_response), bool(answer)


# --- events


def check_events(data: bytes) -> Hashable:
    """The same events whole and in pieces, but for what is over the limit; a quick look agrees."""
    read = []
    for fed in ([data], pieces(data)):
        parser = EventParser(LIMIT, _no_large, skips=True)
        read.append([event for piece in fed for event in parser.feed(piece)])
    whole, cut = ([(_shown(event.data), event.is_message) for event in events] for events in read)
    too_long = any(each[0] == "too long" for each in whole + cut)  # bounds are looked at between pieces
    assert whole == cut or too_long
    if (one := one_event(data)) is not None and len(data) < LIMIT:
        assert [(event.data, event.fields.get(b"id")) for event in read[0]] == [
            (one.data, one.fields.get(b"id"))
        ]
    strict = EventParser(LIMIT, _no_large)
    refused = False
    try:
        held = [event for piece in pieces(data) for event in strict.feed(piece)]
    except malformed.ResponseTooLarge:
        refused = True
    else:
        assert len(held) == len(whole) or too_long
    assert refused or not any(each[0] == "too long" for each in cut)
    return refused, tuple(sorted({(type(e.data).__name__, e.is_message, *sorted(e.fields)) for e in read[0]}))


def _shown(data: object) -> object:
    return "too long" if isinstance(data, TooLong) else data


def _no_large(_begun: bytes | bytearray) -> Any:
    raise AssertionError("a large message within a small limit")


# --- requests


class _Carrier:
    exchanges: Sequence[HttpExchange] = ()

    def go_on(self, exchange: HttpExchange) -> None:
        """Send nothing."""


class _Site:
    """Lets in what has a token, which is as good the next time."""

    def look(self, exchange: HttpExchange) -> Refusal | None:
        exchange.head.is_steady = True
        return None if exchange.headers.get(b"authorization") == b"Bearer one" else Refusal(401, b"no token")

    def is_valid(self, _bearer: object) -> bool:
        return True

    def serve(self, exchange: HttpExchange) -> None:
        """Serve nothing."""


FIRST: Final = b"POST /mcp HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer one\r\nContent-Length: 2\r\n\r\n{}"


def check_requests(data: bytes) -> Hashable:
    """The same requests whole, in pieces, and behind a known head; nothing raises inside the parser."""
    before = sum(contained().values())
    whole, cut, known = _requests([data]), _requests(pieces(data)), _requests([FIRST, data])
    assert whole == cut, "read otherwise in pieces"
    assert known[0][1:] == whole[0], "read otherwise behind a head that is known"
    assert sum(contained().values()) == before, "a fault in a callback of the parser"
    found, stops, part = whole
    statuses = tuple(refusal.status if refusal else 0 for refusal, *_ in found[:6])
    return statuses, stops, part, tuple(sorted({name for each in found[:2] for name, _ in each[4]}))[:6]


def _requests(fed: list[bytes]) -> tuple[list[Any], bool, str | None]:
    reader = RequestReader(_Carrier(), _Site(), Bodies(LIMIT))  # type: ignore[arg-type]
    found: list[Any] = []
    for piece in fed:
        if reader.stops:
            break
        reader.feed(piece)
        found += [
            (each.refusal, each.method, each.path, each.head.query, list(each.pairs), bytes(each.body))
            for each in reader.waiting
        ]
        reader.waiting.clear()
    return found, reader.stops, None if reader.stops else reader.part


# --- responses


class _Told:
    """What a connection says of one response, and that it says it in order."""

    def __init__(self) -> None:
        self.head: tuple[int, dict[str, str], list[str]] | None = None
        self.body = b""
        self.end = ""

    def begun(self, head: Head, _connection: HttpConnection) -> None:
        assert self.head is None
        assert not self.end
        self.head = head.status_code, dict(head.headers), list(head.cookies)

    def came(self, piece: bytes) -> None:
        assert self.head is not None
        assert not self.end
        self.body += piece

    def ended(self, piece: bytes) -> None:
        assert self.head is not None
        assert not self.end
        self.body, self.end = self.body + piece, "ended"

    def dropped(self, _error: Dropped) -> None:
        assert not self.end
        self.end = "dropped"


class _Transport(asyncio.Transport):
    def __init__(self, there: socket.socket) -> None:
        super().__init__({"socket": there})
        self.is_open = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None: ...
    def abort(self) -> None:
        self.is_open = False

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


@cache
def _socket() -> socket.socket:
    there = socket.socket()
    atexit.register(there.close)
    return there


def check_responses(data: bytes) -> Hashable:
    """The same response whole, in pieces, and behind the same head; told in order, and to its end."""
    return _loop().run_until_complete(_check_responses(data))


async def _check_responses(data: bytes) -> Hashable:
    whole, cut = _response([[data]])[0], _response([pieces(data)])[0]
    assert whole.end == cut.end, "it ends otherwise in pieces"
    if whole.end == "ended":
        assert (whole.head, whole.body) == (cut.head, cut.body), "read otherwise in pieces"
    again = _response([[data], [data]])
    if len(again) > 1:
        assert (again[1].head, again[1].body, again[1].end) == (whole.head, whole.body, whole.end)
    return whole.end, whole.head and (whole.head[0], *sorted(whole.head[1])[:6]), bool(whole.body), len(again)


def _response(responses: list[list[bytes]]) -> list[_Told]:
    """What is told of each response on one connection, for as long as it takes requests."""
    transport = _Transport(_socket())
    connection = HttpConnection(lambda _: None, lambda _: None)
    connection.connection_made(transport)
    told = []
    for fed in responses:
        if told and not (connection.reusable and transport.is_open and told[-1].end == "ended"):
            break
        told.append(_Told())
        connection.send(b"GET / HTTP/1.1\r\n\r\n", told[-1])
        for piece in fed:
            if not transport.is_open:
                break
            connection.get_buffer(-1)[: len(piece)] = piece
            connection.buffer_updated(len(piece))
    connection.connection_lost(None)
    assert all(each.end for each in told), "nobody is told how it ended"
    return told


_CALL: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":[1,2.5,null]}}}'
)
_ANSWER: Final = (
    b'{"jsonrpc": "2.0", "id": "a", "result": {"content": [{"type": "text", "text": "\\u00e9"}]}}'
)
_JSON_WORDS: Final = (
    b'"id":',
    b'"method":',
    b'"params":{',
    b'"result":{',
    b'"error":',
    b"null",
    b"[",
    b"{",
    b"]",
    b"}",
)

TARGETS: Final = (
    Target(
        "lines",
        "messages in lines",
        (_CALL + b"\n", _CALL + b"\r\n" + _ANSWER + b"\n\n \n", b"x" * (LIMIT + 1) + b"\n{}\n"),
        (b"\n", b"\r\n", b" ", b"x" * LIMIT),
        check_lines,
    ),
    Target(
        "envelopes",
        "JSON-RPC messages",
        (
            _CALL,
            _ANSWER,
            b"[" + _CALL + b"," + _ANSWER + b"]",
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":1,"total":NaN}}',
            b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"\\ud83d\\ude00 \\ud800"}}',
        ),
        _JSON_WORDS,
        check_envelopes,
    ),
    Target(
        "events",
        "server-sent events",
        (
            b"id: 1\nevent: message\ndata: {}\n\n",
            b": hello\r\n\r\ndata: a\r\ndata:b\r\nretry: 5\r\n\r\n",
            b"event: other\rdata: 1\r\rdata: 2\r\r",
            b"data: " + b"x" * LIMIT + b"\n\ndata: 1\n\n",
        ),
        (b"data: ", b"data:", b"id: ", b"event: message", b"\n\n", b"\r\r", b"\r\n\r\n", b":"),
        check_events,
    ),
    Target(
        "http-requests",
        "requests over HTTP",
        (
            FIRST,
            FIRST + FIRST,
            b"GET /mcp?x=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            (
                b"POST / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer one\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n"
            ),
            b"GET / HTTP/1.0\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        ),
        (
            *(
                b"Content-Length: 5\r\n",
                b"Transfer-Encoding: chunked\r\n",
                b"Host: h\r\n",
                b"Expect: 100-continue\r\n",
            ),
            *(
                b"\r\n",
                b"\r\n\r\n",
                b" ",
                b"HTTP/1.1",
                b"0\r\n\r\n",
                b"Upgrade: x\r\nConnection: upgrade\r\n",
            ),
        ),
        check_requests,
    ),
    Target(
        "http-responses",
        "responses over HTTP",
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
            b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        ),
        (
            *(
                b"Content-Length: 5\r\n",
                b"Transfer-Encoding: chunked\r\n",
                b"Connection: close\r\n",
                b"\r\n\r\n",
            ),
            *(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", b"0\r\n\r\n"),
        ),
        check_responses,
    ),
)

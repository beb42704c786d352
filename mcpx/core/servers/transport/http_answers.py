"""The meaning of HTTP answers, and the events in a stream, read without touching a connection. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import msgspec

from mcpx.core.servers.transport.http_connection import Head
from mcpx.core.text import cut
from mcpx.core.wire import envelope, malformed
from mcpx.core.wire.enclosed import one_line
from mcpx.core.wire.envelope import MCPError, RequestId, RPCError, RPCMessage
from mcpx.core.wire.intake import INTAKE, LARGE_BYTES, LargeMessage
from mcpx.core.wire.lines import KEPT_BYTES, TooLong
from mcpx.core.wire.malformed import may_have_lone_surrogates, mend_lone_surrogates, mend_numbers
from mcpx.core.wire.outgoing import (
    MalformedMessage,
    ResponseTooLarge,
    UnreadableAnswer,
    has_error,
    read_error,
)

MAX_QUOTE_LEN: Final = 200  # characters of a text of the server's in a message
SESSION_HEADER: Final = "mcp-session-id"
_ACCEPTED: Final = frozenset({HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT})
_TEXT_TYPES: Final = ("application/json", "text/plain", "application/problem+json")
_SERVER_ERRORS: Final = range(500, 600)

Redact = Callable[[str], str]
"""Takes the secrets out of a text."""


class Answer(msgspec.Struct, frozen=True):
    """The response to a request: its result as it came, or its error. The id of an error may be null."""

    id: RequestId | None
    result: msgspec.Raw | None = None
    error: MCPError | None = None

    def is_to(self, request_id: RequestId) -> bool:
        """Return True if it responds to that request, or is an error of none."""
        return str(self.id) == str(request_id) if self.id is not None else self.error is not None


def read_answer(data: bytes | LargeMessage, *, raw: bool) -> Answer | None:
    """Read a JSON-RPC message; return None if it is not a response.

    The contents stay as they came; with `raw`, numbers that are no JSON fail it, else they are null. Half a
    surrogate pair, which some clients take, is replaced.

    Raises:
        MalformedMessage: It is not a JSON-RPC message.
    """
    message = _large(data) if isinstance(data, LargeMessage) else _decoded(data, raw=raw)
    if message.method is not None:
        return None
    if message.error and has_error(message):
        return Answer(message.id, error=read_error(message.error))
    if not message.result:
        raise MalformedMessage(f"the answer is {malformed.NEITHER}")
    return Answer(message.id, result=message.result)


def _decoded(data: bytes, *, raw: bool) -> RPCMessage:
    if b"\n" in data or b"\r" in data:
        data = one_line(data)
    if may_have_lone_surrogates(data):
        data = mend_lone_surrogates(data)
    try:
        if not data.isascii():
            data.decode()
        is_large = len(data) >= envelope.LARGE_BYTES
        return (is_large and envelope.split_large_answer(data)) or envelope.decode_message(data)
    except RecursionError:
        raise UnreadableAnswer(malformed.TOO_DEEP, data) from None
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        if (mended := mend_numbers(data)) == data:
            raise MalformedMessage(f"the answer is not a JSON-RPC message: {error}") from None
    message = decode_or_nothing(mended)
    if raw and message.method is None:
        raise UnreadableAnswer(malformed.NONFINITE, data)
    return message


def _large(data: LargeMessage) -> RPCMessage:
    """Split a large message, of which the two ends are looked at."""
    if data.error is not None:
        raise MalformedMessage("the answer is not UTF-8")
    message = envelope.split_large(data)
    if message is None:
        raise MalformedMessage(malformed.UNUSUAL)
    if message.method is None:
        INTAKE.carries(data, message.result)
    return message


def decode_or_nothing(data: bytes) -> RPCMessage:
    """A JSON-RPC message; one without any member for what is none."""
    try:
        return envelope.decode_message(data)
    except (msgspec.DecodeError, RecursionError):
        return RPCMessage()


def answer_to(request_id: RequestId, data: bytes | LargeMessage, *, raw: bool) -> Answer:
    """Read the response to a request.

    Raises:
        MalformedMessage: It is not the response to that request.
    """
    answer = read_answer(data, raw=raw)
    if answer is None:
        raise MalformedMessage("the answer is a message of another kind")
    if not answer.is_to(request_id):
        raise MalformedMessage("the answer is to another request, or to none")
    return answer


def not_a_message(response: Head) -> MalformedMessage:
    """Describe an answer of a good status that holds no message."""
    if response.status_code in _ACCEPTED:
        return MalformedMessage(f"the answer is HTTP {response.status_code}, without a message")
    given = response.headers.get("content-type", "").partition(";")[0]  # as it came: it may quote a secret
    kind = quoted(given) or "of no content type"
    return MalformedMessage(f"the answer is {kind}, not an MCP message")


def describe(error: Exception, redact: Redact) -> str:
    """Describe a failure in the words of the system, or of the server."""
    return quoted(redact(str(error))) or type(error).__name__


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of an HTTP error: its text; the JSON-RPC error in it, if there is one, and its id."""

    text: str = ""
    error: MCPError | None = None
    id: RequestId | None = None


class _ErrorMessage(msgspec.Struct):
    error: msgspec.Raw
    id: RequestId | None = None


def read_error_body(response: Head, body: bytes, redact: Redact) -> ErrorBody:
    """Read the body of an HTTP error. Secrets are taken out of its text, but not of its JSON-RPC error."""
    kind = response.content_type
    if kind == "application/json":
        with suppress(msgspec.DecodeError, RecursionError):
            found = msgspec.json.decode(body, type=_ErrorMessage)
            said = msgspec.json.decode(found.error, type=RPCError)
            return ErrorBody(quoted(redact(said.message)), read_error(found.error), found.id)
    return ErrorBody(quoted(redact(body.decode(errors="replace"))) if kind in _TEXT_TYPES else "")


def is_unparsed(status: int, body: ErrorBody) -> bool:
    """True if the server refused a request before it read its id.

    Some servers do so for a session that they do not know, where the protocol has 404.
    """
    return status == HTTPStatus.BAD_REQUEST and body.error is not None and body.id is None


def is_server_error(body: ErrorBody, status: int, request_id: RequestId, *, in_session: bool) -> bool:
    """True if the server answered the request with an error of its own, which is passed on unaltered.

    It did if the error carries the id of the request. Servers without sessions may not read the id of what
    they refuse; one with sessions that does not has refused the session, and a 429 or a 5xx may be a proxy's.
    """
    if body.error is None or status == HTTPStatus.TOO_MANY_REQUESTS:
        return False
    if body.id is not None and str(body.id) == str(request_id):
        return True
    return status not in _SERVER_ERRORS and not in_session


def quoted(text: str) -> str:
    """Quote a text of the server's: one line, cut to a length."""
    return cut(" ".join(text.split()), MAX_QUOTE_LEN)


# --- events of a stream

_DATA: Final = b"data:"
_REST: Final = b"data: "  # what is left of a line whose beginning was let go belongs to it
_LINE_BREAK: Final = re.compile(rb"\r\n|\n|\r")
_KEPT_FIELDS: Final = frozenset({b"event", b"id", b"retry"})
_ONE_EVENT: Final = re.compile(
    rb"(?:id: ?([^\r\n\0]+)\r?\n)?(?:event: ?message\r?\n)?data: ?+([^\r\n]+)\r?\n\r?\n"
)


class Event(msgspec.Struct):
    """One event of a stream; of a field that it has twice, the last."""

    fields: dict[bytes, bytes]
    data: bytes | LargeMessage | TooLong | None = None
    """Its lines of data with line breaks between them; None without one."""

    @property
    def is_message(self) -> bool:
        """True if it carries a JSON-RPC message."""
        return bool(self.data) and self.fields.get(b"event", b"") in {b"", b"message"}


def one_event(chunk: bytes) -> Event | None:
    """Read what is one whole event with a message, in the usual spelling; None for anything else."""
    if (found := _ONE_EVENT.fullmatch(chunk)) is None:
        return None
    return Event({} if found[1] is None else {b"id": found[1]}, found[2])


class EventParser:
    """Finds the events in a stream; of an incomplete one it holds at most `limit` bytes.

    `large` begins a large message. With `skips`, an event over the limit is a `TooLong`.
    """

    def __init__(
        self, limit: int, large: Callable[[bytes | bytearray], LargeMessage], *, skips: bool = False
    ) -> None:
        self._limit = limit
        self._begin_large = large
        self._skips = skips
        self._skipped: bytes | None = None  # the beginning of the data that is skipped
        self._tail = b""  # and its end, so far
        self._stalled = False
        self._line = bytearray()  # the last line, as far as it has come
        self._large: LargeMessage | None = None  # the same, where it is data and large
        self._whole: LargeMessage | None = None  # the data, where its first field is large
        self._data: bytearray | None = None  # the data fields of the event so far, each with a line break
        self._fields: dict[bytes, bytes] = {}
        self._held_bytes = 0
        self._after_cr = False
        self._mark = codecs.BOM_UTF8  # which may stand before the first line

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield each event that this chunk completes.

        Raises:
            ResponseTooLarge: An event is longer than the limit.
        """
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        if self._large is not None and self._large.given_up:
            self._stalled = True
            self._refuse()
        first, *others = _LINE_BREAK.split(chunk)
        self._hold(first)
        for line in others:
            if (event := self._end_line()) is not None:
                yield event
            self._hold(line)
        self._check()

    def _check(self) -> None:
        if self._held_bytes > self._limit:
            self._refuse()

    def _refuse(self) -> None:
        """Skip the event that is too large, if such are skipped."""
        for large in (self._large, self._whole):
            if large is not None:
                large.released()
        if not self._skips:
            raise ResponseTooLarge(f"the answer is {self._too_long(b'', b'').problem}")
        if self._skipped is None:
            held = self._large or self._whole or self._data or self._line[len(_DATA) :]
            self._skipped = bytes(held[:KEPT_BYTES]).lstrip()
            self._tail = bytes(held[-KEPT_BYTES:])
        else:
            self._skip(b"")
        if self._line or self._large is not None:
            self._line[:] = _REST
        self._large = self._whole = self._data = None
        self._held_bytes = 0

    def _skip(self, part: bytes) -> None:
        """Let go of the line as far as it has come, and of what follows, but for the end."""
        self._tail = (self._tail + self._line.removeprefix(_DATA).removeprefix(b" ") + part)[-KEPT_BYTES:]

    def _too_long(self, head: bytes, tail: bytes) -> TooLong:
        return TooLong(head, tail, self._limit, self._stalled)

    def _hold(self, part: bytes) -> None:
        if self._skipped is not None and (len(self._line) + len(part)) > KEPT_BYTES:
            self._skip(part)
            self._line[:] = _REST
            return
        self._held_bytes += len(part)
        if self._large is not None:
            self._large.add(part)
            return
        self._line += part
        if len(self._line) > LARGE_BYTES and self._data is None and self._line.startswith(_DATA):
            value = self._line[len(_DATA) :]
            self._large = self._begin_large(value.removeprefix(b" "))
            self._line.clear()

    def _end_line(self) -> Event | None:
        if self._large is not None:
            self._whole, self._large = self._large, None
            self._whole.end()
            return None
        line = bytes(self._line).removeprefix(self._mark)
        self._line.clear()
        self._mark = b""
        if not line:
            return self._end_event()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            if self._skipped is not None:
                self._tail = (self._tail + value)[-KEPT_BYTES:]
                self._held_bytes = 0
                return None
            self._data = bytearray() if self._data is None else self._data
            self._data += value + b"\n"
            return None
        self._held_bytes -= len(line)
        if field in _KEPT_FIELDS and (field != b"id" or b"\0" not in value):
            self._held_bytes += len(value) - len(self._fields.get(field, b""))
            self._fields[field] = value
        return None

    def _end_event(self) -> Event:
        self._check()
        data: bytes | LargeMessage | TooLong | None = self._whole
        if self._data is not None:
            rest = bytes(memoryview(self._data)[:-1])
            data = rest if self._whole is None else bytes(self._whole) + b"\n" + rest
        if self._skipped is not None:
            data = self._too_long(self._skipped, self._tail)
        self._whole = self._skipped = None
        self._stalled = False
        event = Event(self._fields, data)
        self._data, self._fields = None, {}
        self._held_bytes = 0
        return event

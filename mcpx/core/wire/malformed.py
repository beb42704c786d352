"""Lines that are no JSON-RPC messages: what is wrong with them, and the error that answers them. Pure.

JSON-RPC wants such a request answered, with its id where that can be found and else with null. In what is no
JSON by any reading, no id can be trusted. The search is linear in what it looks at, and looks at no more than
the two ends of a line. Imported by `mcpx attach`, so standard library and msgspec only.

Lines that strict readers refuse are mended where the official clients accept them: of servers, a lone
surrogate, which programs leave behind that cut a text in the middle of a character, becomes U+FFFD; `NaN` and
the infinities, which Python writes, become null, but the result of a call fails, and in listings numbers that
no float holds stand for them; in listings, what is nested too deeply becomes null. Of clients, a request that
is nested too deeply is read without its depths, so that it can be refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, Bytes, RequestId
from mcpx.core.wire.intake import LARGE_BYTES, LargeMessage, Outline
from mcpx.core.wire.lines import KEPT_BYTES, Line, TooLong

MAX_LONE_SURROGATES: Final = 10_000  # replaced in a line; more are no text that was cut
MAX_NUMBER_SEARCH_BYTES: Final = 1024 * 1024  # of a line that is searched for `NaN` and the like
MAX_LISTING_BYTES: Final = 256 * 1024  # of a listing that is cut at a depth
NAN: Final = b"7e999999999"  # stands for `NaN` in a listing
READABLE_DEPTH: Final = 8  # levels kept of a request: its names are on the third

_REPLACEMENT: Final = rb"\ufffd"
_SURROGATE: Final = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_PAIR: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# All up to the next lone surrogate. What was passed is never looked at again (`*+`): this is linear.
_UP_TO_LONE: Final = re.compile(
    rb"(?:[^\\]++|" + _PAIR + rb"|\\(?!u[dD][89a-fA-F][0-9a-fA-F]{2})[\s\S])*+(?=" + _SURROGATE + rb")"
)
# An escape at the end that is not whole, or is the first half of a pair, behind what ends before it.
_HALF: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_UNDECIDED: Final = re.compile(
    rb"(?:\A|[^\\])(?:\\\\)*+((?!"
    + _PAIR
    + rb")(?:"
    + _HALF
    + rb"(?:\\(?:u[0-9a-fA-F]{0,4})?)?|\\(?:u[0-9a-fA-F]{0,3})?))\Z"
)
_UNDECIDED_BYTES: Final = 12  # of two escapes
_ESCAPE_BYTES: Final = 6  # of one such escape
_JSON_STRING: Final = rb'"(?:[^"\\]++|\\[\s\S])*+"'
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD]")  # one pass; looking for plain bytes takes twice as long
_NUMBER: Final = re.compile(rb"(" + _JSON_STRING + rb")|-?\b(?:NaN|Infinity)\b")
_STAND_INS: Final = {b"NaN": NAN, b"-NaN": NAN, b"Infinity": b"1e999", b"-Infinity": b"-1e999"}
_BRACKET: Final = re.compile(_JSON_STRING + rb"|[\[{]|[\]}]")


may_have_lone_surrogates: Final = _SURROGATE_ESCAPE.search
"""Finds an escaped surrogate, if a line has one at all: a quick look, for every line."""


def mend_lone_surrogates(line: bytes) -> bytes:
    """Replace each lone surrogate by U+FFFD."""
    parts: list[bytes] = []
    at = 0
    for _ in range(MAX_LONE_SURROGATES):
        found = _UP_TO_LONE.match(line, at)
        if found is None:
            break
        parts += [found[0], _REPLACEMENT]
        at = found.end() + _ESCAPE_BYTES
    return b"".join((*parts, line[at:])) if parts else line


class Mender:
    """Mends lone surrogates in a text that comes in pieces; give it b"" at the end."""

    def __init__(self, first: Callable[[bytes], bytes] | None = None) -> None:
        """`first` is applied to each piece before."""
        self._first = first
        self._kept = b""  # an escape that may go on, or be half of a pair

    def __call__(self, piece: bytes, outline: Outline) -> bytes:
        """Mend what has come, but for what the next piece decides, and add it to the outline."""
        text = self._kept + (piece if self._first is None else self._first(piece))
        self._kept = b""
        if piece and b"\\" in text[-_UNDECIDED_BYTES:]:
            even = len(text[:-_UNDECIDED_BYTES].rstrip(b"\\"))  # from where it is known which begin an escape
            if undecided := _UNDECIDED.search(text, max(0, even - 1)):
                text, self._kept = text[: undecided.start(1)], undecided[1]
        if outline.goes_on(text):
            return text
        mended = mend_lone_surrogates(text) if may_have_lone_surrogates(text) else text
        outline.add(mended)
        return mended


def mend_numbers(line: bytes) -> bytes:
    """Replace `NaN` and the infinities by null, unless the line is over `MAX_NUMBER_SEARCH_BYTES`."""
    return _replace_numbers(line, {})


def stand_in_for_numbers(line: bytes) -> bytes:
    """Replace `NaN` by `NAN`, and the infinities by numbers beyond all floats, within the same limit."""
    return _replace_numbers(line, _STAND_INS)


def _replace_numbers(line: bytes, by: dict[bytes, bytes]) -> bytes:
    if len(line) > MAX_NUMBER_SEARCH_BYTES or not (b"NaN" in line or b"Infinity" in line):
        return line
    return _NUMBER.sub(lambda found: found[1] or by.get(found[0], b"null"), line)


def cut_depth(line: bytes, max_depth: int) -> bytes | None:
    """Replace what is nested deeper by null; None for a line that is too long, or does not close."""
    return _cut(line, max_depth) if len(line) <= MAX_LISTING_BYTES else None


def shallow(line: bytes) -> bytes | None:
    """Replace what is nested deeper than `READABLE_DEPTH` by null; None for a line that does not close."""
    return _cut(line, READABLE_DEPTH)


def _cut(line: bytes, max_depth: int) -> bytes | None:
    kept: list[bytes] = []
    depth = begun = 0
    for found in _BRACKET.finditer(line):
        match found[0][:1]:
            case b"[" | b"{":
                depth += 1
                if depth == max_depth + 1:
                    kept += (line[begun : found.start()], b"null")
            case b"]" | b"}":
                depth -= 1
                if depth < 0:
                    return None
                if depth == max_depth:
                    begun = found.end()
    return None if depth else b"".join((*kept, line[begun:]))


ID_SEARCH_BYTES: Final = 65536  # bytes at the start of a line in which its id is looked for
NULL_ID: Final = "the id of a request is a string or an integer"
NEITHER: Final = "neither a request nor an answer"
NONFINITE: Final = "the answer holds NaN or an infinity, which are no JSON"
TOO_DEEP: Final = "the answer is nested too deeply"
FAILED: Final = "it cannot be taken apart"
_MARK: Final = re.compile(rb'["{}\[\]]')
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_COLON: Final = re.compile(rb"\s*:\s*")
_VALUE: Final = re.compile(rb'(-?\d{1,40}(?=\s*[,}])|"[^"\\]*")')
_LAST: Final = re.compile(
    rb',\s*"id"\s*:\s*(-?\d{1,40}|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$'
)


class ResponseTooLarge(Exception):
    """The answer was longer than a message may be, and was skipped."""


class MalformedMessage(Exception):
    """The answer was no JSON, or no UTF-8."""


class UnreadableAnswer(MalformedMessage):
    """The answer is JSON for other readers only. `line` is the whole of it."""

    def __init__(self, text: str, line: bytes) -> None:
        super().__init__(text)
        self.line = line


class MalformedLine(msgspec.Struct, frozen=True):
    """A fault of a line, as a text and as a JSON-RPC error code.

    `head` and `tail` are the ends of the line, as much as is looked at; `error` is what a request fails with
    that the line answers.
    """

    head: bytes
    tail: bytes
    text: str
    code: int
    error: Exception


def describe(line: Line, error: Exception | None = None) -> MalformedLine:
    """Say why a line could not be read, given what its decoding raised."""
    if isinstance(line, TooLong):
        too_large = ResponseTooLarge(f"the answer is {line.problem}")
        text = f"a line {line.problem}"
        return MalformedLine(line.head, line.tail, text, INVALID_REQUEST, too_large)
    text, code, failure = _cause(line, error)
    tail = line[-KEPT_BYTES:] if len(line) > ID_SEARCH_BYTES else b""
    return MalformedLine(bytes(line[:ID_SEARCH_BYTES]), bytes(tail), text, code, failure)


def _cause(line: bytes | LargeMessage, error: Exception | None) -> tuple[str, int, Exception]:
    match error:
        case UnicodeDecodeError():
            return "not UTF-8", PARSE_ERROR, MalformedMessage("the answer is not UTF-8")
        case RecursionError():
            return "nested too deeply", PARSE_ERROR, UnreadableAnswer(TOO_DEEP, bytes(line))
        case msgspec.ValidationError():
            text = f"not a JSON-RPC message ({error})"
            return text, INVALID_REQUEST, MalformedMessage("the answer is not JSON")
        case None:
            return FAILED, INTERNAL_ERROR, MalformedMessage("the answer cannot be taken apart")
        case _:
            return f"not JSON ({error})", PARSE_ERROR, MalformedMessage("the answer is not JSON")


_UNUSUAL: Final = f"over {LARGE_BYTES} bytes, and unusually written around its contents"
UNUSUAL: Final = f"the answer is {_UNUSUAL}"


def unusual(line: LargeMessage, head: bytes) -> MalformedLine:
    """Describe a large message whose envelope cannot be read from its two ends."""
    text = "not UTF-8" if line.error else _UNUSUAL
    code = PARSE_ERROR if line.error else INVALID_REQUEST
    return MalformedLine(
        head, bytes(line[-KEPT_BYTES:]), f"a line {text}", code, MalformedMessage(f"the answer is {text}")
    )


def invalid(line: bytes, text: str) -> MalformedLine:
    """Describe a line that is JSON, but no JSON-RPC message."""
    return MalformedLine(
        line[:ID_SEARCH_BYTES], line[-KEPT_BYTES:], text, INVALID_REQUEST, MalformedMessage(text)
    )


def find_id(head: bytes, tail: bytes = b"") -> RequestId | None:
    """Find the id of a message that cannot be decoded; None without one, or where it is not found.

    `head` is the start of the line, `tail` its end, where that is not part of the head.
    """
    found = _first(head[:ID_SEARCH_BYTES])
    return found if found is not None else _decoded(_LAST.search(tail))


def _first(line: bytes) -> RequestId | None:
    """The value of the first `id` that is a member of the outermost object."""
    depth = at = 0
    if line.lstrip()[:1] != b"{":
        return None
    while (mark := _MARK.search(line, at)) is not None:
        at = mark.end()
        if mark[0] in b"{[":
            depth += 1
        elif mark[0] in b"}]":
            depth -= 1
        elif (text := _STRING.match(line, mark.start())) is None:
            return None
        else:
            at = text.end()
            if depth == 1 and text[0] == b'"id"' and (colon := _COLON.match(line, at)):
                return _decoded(_VALUE.match(line, colon.end()))
    return None


def _decoded(found: re.Match[bytes] | None) -> RequestId | None:
    try:
        return msgspec.json.decode(found[1], type=RequestId) if found else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def has_null_id(line: bytes) -> bool:
    """Return True if a message without an id gives one all the same: null, which JSON-RPC does not allow."""
    if b'"id"' not in line:
        return False
    return _decode_given_id(line).id is not msgspec.UNSET


class _GivenId(msgspec.Struct, gc=False):
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode_given_id = msgspec.json.Decoder(_GivenId).decode


def is_request(problem: MalformedLine) -> bool:
    """Return True if the line looks like a request rather than an answer."""
    return b'"method"' in problem.head


def _is_broken(problem: MalformedLine) -> bool:
    """True if the line is not even JSON with what others write and MCPX refuses: `NaN`, lone surrogates."""
    if problem.code != PARSE_ERROR or problem.tail:
        return False
    text = problem.head.decode(errors="replace").encode()
    try:
        msgspec.json.decode(mend_numbers(mend_lone_surrogates(text)))
    except RecursionError:
        return False
    except msgspec.DecodeError:
        return True
    return False


def refusal(problem: MalformedLine) -> list[Bytes]:
    """Encode the error that answers a line, in pieces; empty for a line that looks like an answer."""
    if not is_request(problem) and (b'"result"' in problem.head or b'"error"' in problem.head):
        return []
    text = f"MCPX cannot read this message: {problem.text}; nothing was done"
    found = None if _is_broken(problem) else find_id(problem.head, problem.tail)
    return envelope.failure(found, envelope.encode({"code": problem.code, "message": text}))


def unreadable(line: bytes) -> list[Bytes]:
    """Encode the error that answers a line if it is no message, in pieces; empty for a message."""
    try:
        message = envelope.decode_message(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return refusal(describe(line, error))
    if message.method is None:
        return [] if message.is_response else refusal(invalid(line, NEITHER))
    return refusal(invalid(line, NULL_ID)) if message.id is None and has_null_id(line) else []

"""JSON that strict readers refuse, made into JSON that all can read. Pure, and linear in the line's length.

Of servers, what the official clients accept is mended: a lone surrogate, which programs leave behind that cut
a text in the middle of a character, becomes U+FFFD; `NaN` and the infinities, which Python writes, become
null, but the result of a call fails, and in listings numbers that no float holds stand for them; in listings,
what is nested too deeply becomes null. Of clients, a request that is nested too deeply is read without its
depths, so that it can be refused by name.
"""

from __future__ import annotations

import re
from typing import Final

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
# All but an escape at the end that is not whole, or is the first half of a pair.
_HALF: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_WHOLE: Final = re.compile(
    rb"(?:[^\\]++|"
    + _PAIR
    + rb"|(?!"
    + _HALF
    + rb"(?:\\(?:u[0-9a-fA-F]{0,4})?)?\Z)\\(?:u[0-9a-fA-F]{4}|[^u]))*+"
)
_UNDECIDED_BYTES: Final = 12  # of two escapes
_ESCAPE_BYTES: Final = 6  # of one such escape
_STRING: Final = rb'"(?:[^"\\]++|\\[\s\S])*+"'
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD]")  # one pass; looking for plain bytes takes twice as long
_NUMBER: Final = re.compile(rb"(" + _STRING + rb")|-?\b(?:NaN|Infinity)\b")
_STAND_INS: Final = {b"NaN": NAN, b"-NaN": NAN, b"Infinity": b"1e999", b"-Infinity": b"-1e999"}
_BRACKET: Final = re.compile(_STRING + rb"|[\[{]|[\]}]")


def may_have_lone_surrogates(line: bytes) -> bool:
    """Whether a line has escaped surrogates at all: a quick look, for every line."""
    return _SURROGATE_ESCAPE.search(line) is not None


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

    def __init__(self) -> None:
        self._kept = b""  # an escape that may go on, or be half of a pair

    def __call__(self, piece: bytes) -> bytes:
        """Mend what has come, but for what the next piece decides."""
        text, self._kept = self._kept + piece, b""
        if piece and b"\\" in text[-_UNDECIDED_BYTES:]:
            whole = _WHOLE.match(text)
            end = whole.end() if whole else 0
            if len(text) - end > _UNDECIDED_BYTES:  # it is no JSON
                end = len(text)
            text, self._kept = text[:end], text[end:]
        return mend_lone_surrogates(text) if may_have_lone_surrogates(text) else text


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

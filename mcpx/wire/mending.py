"""JSON that strict readers refuse and the official clients take, made into JSON that everybody can read.

Used for what servers send, never for what clients do. Three things are mended: half a surrogate pair, which
programs leave behind that cut a text in the middle of a character, becomes U+FFFD; `NaN` and the infinities,
which Python writes, become null; and for listings what is nested too deeply is cut off. Pure, and linear in
the length of the line.
"""

from __future__ import annotations

import re
from typing import Final

HALVES_MOST: Final = 10_000  # replaced in a line; one with more of them is not a text that was cut
NUMBERS_MOST_BYTES: Final = 1024 * 1024  # of a line that is searched for numbers that are no JSON
DEEP_MOST_BYTES: Final = 256 * 1024  # of a line that is searched for what is nested too deeply

_REPLACEMENT: Final = rb"\ufffd"
_SURROGATE: Final = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_PAIR: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# All up to the next half of a pair. What was passed is never looked at again (`*+`), so that this is linear.
_UP_TO_HALF: Final = re.compile(
    rb"(?:[^\\]++|" + _PAIR + rb"|\\(?!u[dD][89a-fA-F][0-9a-fA-F]{2})[\s\S])*+(?=" + _SURROGATE + rb")"
)
_HALF_BYTES: Final = 6  # of one such escape
_STRING: Final = rb'"(?:[^"\\]++|\\[\s\S])*+"'
_MAY_BE_HALF: Final = re.compile(rb"\\u[dD]")  # one pass; looking for plain bytes takes twice as long
_NUMBER: Final = re.compile(rb"(" + _STRING + rb")|-?\b(?:NaN|Infinity)\b")
_BRACKET: Final = re.compile(_STRING + rb"|[\[{]|[\]}]")


def may_have_halves(line: bytes) -> bool:
    """Whether it is worth looking for halves of surrogate pairs: a quick look, for every line."""
    return _MAY_BE_HALF.search(line) is not None


def mend_halves(line: bytes) -> bytes:
    """The line with U+FFFD in place of each half of a surrogate pair."""
    parts: list[bytes] = []
    at = 0
    for _ in range(HALVES_MOST):
        found = _UP_TO_HALF.match(line, at)
        if found is None:
            break
        parts += [found[0], _REPLACEMENT]
        at = found.end() + _HALF_BYTES
    return b"".join((*parts, line[at:])) if parts else line


def mend_numbers(line: bytes) -> bytes:
    """The line with null in place of `NaN` and the infinities; as it is where it has none, or is too long."""
    if len(line) > NUMBERS_MOST_BYTES or not (b"NaN" in line or b"Infinity" in line):
        return line
    return _NUMBER.sub(lambda found: found[1] or b"null", line)


def cut_depth(line: bytes, deepest: int) -> bytes | None:
    """The line with null in place of what is nested over `deepest` levels deep; None if it is too long."""
    if len(line) > DEEP_MOST_BYTES:
        return None
    parts: list[bytes] = []
    depth, at, cut_from = 0, 0, 0
    for found in _BRACKET.finditer(line):
        match found[0][:1]:
            case b"[" | b"{":
                depth += 1
                if depth == deepest + 1:
                    cut_from = found.start()
            case b"]" | b"}":
                if depth == deepest + 1:
                    parts += [line[at:cut_from], b"null"]
                    at = found.end()
                depth -= 1
    return b"".join((*parts, line[at:]))

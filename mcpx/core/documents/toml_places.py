"""Where the tables, keys and values of a TOML file stand.

Called by `mcpx.core.documents.toml_edits`, with text that is TOML; other text may give any places. Pure.
"""

from __future__ import annotations

import re
import tomllib
from typing import Final

import msgspec

Keys = tuple[str, ...]

_KEY_PART: Final = re.compile(r"""[ \t]*("(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*'|[\w-]+)[ \t]*""")
_STRING: Final = re.compile(
    r'''"""(?:[^\\]|\\(?s:.))*?"{3,5}|\'\'\'(?s:.)*?'{3,5}|"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*\''''
)
_SCALAR: Final = re.compile(r"[^\s,\]}#]+(?: \d\d:[^\s,\]}#]+)?")
_GAP: Final = re.compile(r"(?:[ \t\r\n]++|#[^\r\n]*+)*+")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?:\r?\n|\Z)")


class Place(msgspec.Struct, frozen=True):
    """A header, or a key with its value, as the path that it defines.

    `start` to `end` are its whole lines, with a comment behind it; inside an inline table it is the key with
    its value. `value` is where the value stands; a header has none.
    """

    path: Keys
    start: int
    end: int
    value: tuple[int, int] | None = None


def scan(text: str) -> list[Place]:
    """The headers and the keys of a file in their order; what is inside a value is not looked at."""
    places: list[Place] = []
    table: Keys = ()
    at = _skip(text, 0)
    while at < len(text):
        start = text.rfind("\n", 0, at) + 1
        if text[at] == "[":
            brackets = 2 if text.startswith("[[", at) else 1
            table, stop = _keys_at(text, at + brackets)
            end = _line_end(text, stop + brackets)
            places.append(Place(table, start, end))
        else:
            keys, value = _key_and_value(text, at)
            end = _line_end(text, value[1])
            places.append(Place(table + keys, start, end, value))
        at = _skip(text, max(end, at + 1))
    return places


def members(text: str, opening: int) -> list[Place]:
    """The members of the inline table whose brace is at an offset."""
    found = []
    at = _skip(text, opening + 1)
    while at < len(text) and text[at] != "}":
        keys, value = _key_and_value(text, at)
        found.append(Place(keys, at, value[1], value))
        at = _behind_comma(text, value[1])
    return found


def _key_and_value(text: str, at: int) -> tuple[Keys, tuple[int, int]]:
    keys, equals = _keys_at(text, at)
    start = _skip(text, equals + 1)
    return keys, (start, _value_end(text, start))


def _keys_at(text: str, at: int) -> tuple[Keys, int]:
    """A key, dotted or not, and the offset behind it and its blanks."""
    keys: list[str] = []
    while found := _KEY_PART.match(text, at):
        quoted = found[1][0] in "\"'"
        keys.append(next(iter(tomllib.loads(f"{found[1]} = 0"))) if quoted else found[1])
        at = found.end()
        if not text.startswith(".", at):
            break
        at += 1
    return tuple(keys), at


def _value_end(text: str, at: int) -> int:
    """The offset behind the value at an offset."""
    if text.startswith("{", at):
        inside = members(text, at)
        return _skip(text, _behind_comma(text, inside[-1].end) if inside else at + 1) + 1
    if text.startswith("[", at):
        here = _skip(text, at + 1)
        while here < len(text) and text[here] != "]":
            here = _behind_comma(text, max(_value_end(text, here), here + 1))
        return here + 1
    found = _STRING.match(text, at) or _SCALAR.match(text, at)
    return found.end() if found else at


def _behind_comma(text: str, at: int) -> int:
    here = _skip(text, at)
    return _skip(text, here + 1) if text.startswith(",", here) else here


def _skip(text: str, at: int) -> int:
    """The offset of what follows blanks, line ends and comments."""
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def _line_end(text: str, at: int) -> int:
    rest = _REST_OF_LINE.match(text, at)
    return rest.end() if rest else at

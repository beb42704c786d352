"""JSON as people have it: with comments, trailing commas and a byte order mark, read with places.

Owns the reader (`loads` for the value alone, `parse` for the place of each value too) and how an offset is
shown to a person (`line_and_column`, `excerpt`). Read by whatever opens a configuration or a client's file.
Pure. Strict JSON costs what `json` costs: the reader here runs only where that one fails, or where
places are wanted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn
from unicodedata import combining, east_asian_width

import msgspec

from mcpx.core.text.json_slips import name_slip
from mcpx.errors import MCPXError

LINE_END: Final = re.compile(r"\r\n?|\n")
BOM: Final = "\ufeff"

_MAX_DEPTH: Final = 128
"""Brackets inside each other; the reader calls itself for each."""

_MAX_INT_DIGITS: Final = 4000
"""Digits that become an int; Python refuses to convert longer ones, and no setting is that large."""

_GAP: Final = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*(?s:.*?)\*/)*+")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_SCALAR: Final = re.compile(
    r"(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.+-])"
)

_EXCERPT_WIDTH: Final = 100
"""Characters of a line that an excerpt shows."""


class JSONCError(MCPXError):
    """The text is not JSON, not even with comments: `problem` at `offset`, in characters from 0."""

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(problem)
        self.offset = offset
        self.problem = problem


class JSONObject(dict[str, Any]):
    """A JSON object that remembers which of its keys were given more than once; the last one counts."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated = [] if len(self) == len(pairs) else _repeats([key for key, _ in pairs])


def _repeats(keys: list[str]) -> list[str]:
    seen: set[str] = set()
    return [key for key in keys if key in seen or seen.add(key)]  # type: ignore[func-returns-value]


class Node(msgspec.Struct, frozen=True):
    """A value and where it stands: `text[start:end]`. Objects have `members`, arrays have `items`."""

    value: Any
    start: int
    end: int
    members: tuple[Member, ...] = ()
    items: tuple[Node, ...] = ()

    def member(self, key: str) -> Member | None:
        """The member of that key, the last where it is given twice."""
        return next((each for each in reversed(self.members) if each.key == key), None)

    def find(self, path: Sequence[str | int]) -> Node | None:
        """The value at a path of keys and indices below this one."""
        node = self
        for step in path:
            if isinstance(step, int):
                if not -len(node.items) <= step < len(node.items):
                    return None
                node = node.items[step]
            elif member := node.member(step):
                node = member.node
            else:
                return None
        return node


class Member(msgspec.Struct, frozen=True):
    """One member of an object; `key_start` is that of its opening quote."""

    key: str
    key_start: int
    node: Node


def loads(text: str) -> Any:
    """The value of a text; every object in it is a `JSONObject`.

    Raises:
        JSONCError: The text is not JSON with comments; the usual slips are named.
    """
    try:
        return json.loads(
            text.removeprefix(BOM), object_pairs_hook=JSONObject, parse_int=_number, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        return parse(text).value


def parse(text: str) -> Node:
    """The value of a text, with the place of everything in it; offsets count a byte order mark.

    Raises:
        JSONCError: The text is not JSON with comments; the usual slips are named.
    """
    return _Reader(text).document()


def next_token(text: str, offset: int) -> int:
    """The offset of what follows blanks and comments."""
    gap = _GAP.match(text, offset)
    return gap.end() if gap else offset


def line_start(text: str, offset: int) -> int:
    """Return the offset at which the line of an offset begins."""
    start = text.rfind("\n", 0, offset) + 1
    return max(start, text.rfind("\r", start, offset) + 1)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1, columns in characters; a byte order mark is no character."""
    ends = [found.end() for found in LINE_END.finditer(text, 0, offset)]
    start = ends[-1] if ends else int(text.startswith(BOM))
    return len(ends) + 1, max(offset - start, 0) + 1


def excerpt(text: str, offset: int) -> str:
    """The line of an offset, and a caret beneath; a long line is cut on both sides.

    Values are shown as they are written: hide what is secret before.
    """
    _, column = line_and_column(text, offset)
    start = max(offset - column + 1, 0)
    end = found.start() if (found := LINE_END.search(text, start)) else len(text)
    first = max(start, min(offset - _EXCERPT_WIDTH // 2, end - _EXCERPT_WIDTH))
    last = min(end, first + _EXCERPT_WIDTH)
    before = ("…" if first > start else "") + _shown(text[first:offset])
    after = _shown(text[offset:last]) + ("…" if last < end else "")
    return f"{before}{after}".rstrip() + "\n" + " " * _columns(before) + "^"


def _shown(text: str) -> str:
    """One printable character for each: what a terminal would obey or hide must not move the caret."""
    return "".join(c if c.isprintable() else " " if c == "\t" else "·" for c in text)


def _columns(text: str) -> int:
    """The columns of a terminal that a text takes."""
    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_INT_DIGITS else float(digits)


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


class _Reader:
    """Reads one text by recursive descent; `_opened` holds the offsets of the brackets that are open."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._opened: list[int] = []

    def document(self) -> Node:
        start = next_token(self._text, int(self._text.startswith(BOM)))
        node = self._value(start)
        end = next_token(self._text, node.end)
        if end < len(self._text):
            raise self._error(end, node.end, "the end")
        return node

    def _value(self, at: int) -> Node:
        text = self._text
        first = text[at : at + 1]
        if first == '"':
            return self._string(at)
        if first == "{":
            return self._object(at)
        if first == "[":
            return self._array(at)
        if not (found := _SCALAR.match(text, at)):
            raise self._error(at, at, "a value")
        return Node(json.loads(found[0], parse_int=_number), at, found.end())

    def _string(self, at: int) -> Node:
        if not (found := _STRING.match(self._text, at)):
            raise self._error(at, at, "a string")
        raw = found[0]
        return Node(json.loads(raw) if "\\" in raw else raw[1:-1], at, found.end())

    def _object(self, at: int) -> Node:
        members = []
        here = self._enter(at)
        while not self._text.startswith("}", here):
            if not self._text.startswith('"', here):
                raise self._error(here, here, "a key")
            key = self._string(here)
            colon = next_token(self._text, key.end)
            if not self._text.startswith(":", colon):
                raise self._error(colon, key.end, "a colon")
            node = self._value(next_token(self._text, colon + 1))
            members.append(Member(key.value, key.start, node))
            here = self._after_item(node.end, "}")
        self._opened.pop()
        value = JSONObject([(each.key, each.node.value) for each in members])
        return Node(value, at, here + 1, members=tuple(members))

    def _array(self, at: int) -> Node:
        items = []
        here = self._enter(at)
        while not self._text.startswith("]", here):
            node = self._value(here)
            items.append(node)
            here = self._after_item(node.end, "]")
        self._opened.pop()
        return Node([each.value for each in items], at, here + 1, items=tuple(items))

    def _enter(self, at: int) -> int:
        self._opened.append(at)
        if len(self._opened) > _MAX_DEPTH:
            raise JSONCError(at, "this is nested too deeply")
        return next_token(self._text, at + 1)

    def _after_item(self, end: int, closing: str) -> int:
        """The offset of the next item or of the closing bracket, behind the comma."""
        here = next_token(self._text, end)
        if self._text.startswith(",", here):
            return next_token(self._text, here + 1)
        if not self._text.startswith(closing, here):
            raise self._error(here, end, "a comma")
        return here

    def _error(self, at: int, after: int, expected: str) -> JSONCError:
        return JSONCError(
            *name_slip(self._text, at, after, expected, self._opened[-1] if self._opened else None)
        )

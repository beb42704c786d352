"""The rows of a large JSON text, found without reading more of it than a scan.

Called by `mcpx.core.rendering.budget`. What the rows of a text are depends on the text alone, so that every
page counts them alike. `find_rows` goes down from the root while one member holds at least half of a value:
the elements of the array where that ends, or the members of the object, are the rows, and what stands around
them is small. Where rows are long, one that is very large gives way to its own elements or members; and
where the way ends at a long string, its lines take the place of rows.

`Rows.page` gives some rows in the places that they have in the whole, as JSON text. Values are passed on in
the bytes that came: nothing is decoded but keys.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

MAX_ROW_BYTES: Final = 8192  # of a row that is shown as one, where rows are long
_LONG_ROW_BYTES: Final = 1024  # rows that are longer than this on average are looked at one by one
_MAX_AROUND_BYTES: Final = 4096  # of what may stand around the rows
_MAX_REPEATED_BYTES: Final = 200  # of what stands around the rows that every page repeats
_MAX_DEPTH: Final = 64  # levels that are gone down
_USUAL_LEVELS: Final = 2  # that are gone down whatever that costs: each is a scan of all that is in it
_MAX_SCANNED_BYTES: Final = 64 << 20  # by more levels than these
_MAX_ELEMENTS: Final = 1_000_000  # of an array, made into objects in about 150 ms
FIRST: Final = 1024
"""The elements of an array that `first_elements` looks at; it tells whether there are more."""
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_QUOTE, _BRACKET, _BRACE = b'"[{'

_elements: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_string: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.Encoder().encode

Bytes = bytes | msgspec.Raw
Key = str | int
Path = tuple[Key, ...]


@cache
def _decoder_of_first() -> msgspec.json.Decoder[Any]:
    """A decoder that skips what is behind the first elements; made when needed, as it takes a megabyte."""
    form = msgspec.defstruct(
        "_FirstElements",
        [(f"element{index}", msgspec.Raw, msgspec.Raw()) for index in range(FIRST + 1)],
        array_like=True,
    )
    return msgspec.json.Decoder(form)


def first_elements(array: Bytes) -> tuple[msgspec.Raw, ...]:
    """The first elements of a JSON array and the one behind them, empty where there are fewer.

    Raises:
        msgspec.DecodeError: It is no JSON array.
        RecursionError: It is nested too deeply.
    """
    return msgspec.structs.astuple(_decoder_of_first().decode(array))


class _Run(msgspec.Struct, frozen=True):
    """Rows in a row that are elements of one array (`keys` is None) or members of one object, at `path`."""

    path: Path
    keys: list[str] | None
    values: list[msgspec.Raw]
    offset: int = 0  # of the first of them in its array

    def row(self, index: int) -> tuple[Path, msgspec.Raw]:
        key: Key = self.offset + index if self.keys is None else self.keys[index]
        return (*self.path, key), self.values[index]


class Rows(msgspec.Struct, frozen=True):
    """The rows of a JSON text: `runs` of them, within `around`.

    `around` is, from the root down to where the rows are, the members of each object, or None for an array of
    one element. Where `text` is given there are no rows, but it is the long string at the end of that way.
    """

    size: int
    around: list[dict[str, msgspec.Raw] | None]
    path: Path
    runs: list[_Run]
    total: int
    text: str | None = None

    def page(self, start: int, end: int) -> bytes:
        """The rows from `start` to before `end` as compact JSON, except for space within the rows."""
        if len(self.runs) == 1 and self.runs[0].keys is None and self.runs[0].path == self.path:
            return self.wrapped(self.runs[0].values[start:end], first=start == 0)
        return self.assembled(self.rows(start, end), first=start == 0)

    def assembled(self, values: Iterable[tuple[Path, Any]], *, first: bool) -> bytes:
        """JSON of some values, each at its path, within what stands around the rows."""
        tree: dict[Key, Any] = {}
        for path, value in values:
            node = tree
            for key in path[len(self.path) : -1]:
                node = node.setdefault(key, {})
            node[path[-1]] = value
        return self.wrapped(_closed(tree), first=first)

    def rows(self, start: int, end: int) -> Iterator[tuple[Path, msgspec.Raw]]:
        """The rows from `start` to before `end`, with the path from the root to each."""
        passed = 0
        for run in self.runs:
            first, last = max(start - passed, 0), min(end - passed, len(run.values))
            yield from map(run.row, range(first, last))
            passed += len(run.values)

    def wrapped(self, value: Any, *, first: bool) -> bytes:
        """JSON of what stands around the rows with `value` in the place of the rows.

        `first` says that it is the first page: what stands around is repeated only while it is short.
        """
        for level, key in zip(reversed(self.around), reversed(self.path), strict=True):
            if level is None:
                value = [value]
            elif first or sum(len(memoryview(each)) for each in level.values()) <= _MAX_REPEATED_BYTES:
                value = {**level, str(key): value}
            else:
                value = {str(key): value}
        return _encode(value)


def find_rows(text: str) -> Rows | None:
    """The rows of a JSON object or array; None where it is neither, or can only be cut as a text.

    That is so of an object that has a key twice, and of millions of elements of a byte or two.
    """
    if text.lstrip(" \t\r\n")[:1] not in ("{", "["):
        return None
    try:
        return _find(text.strip(" \t\r\n").encode())
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def select_path(path: Path) -> str:
    """A path as JMESPath."""
    parts = [f"[{key}]" if isinstance(key, int) else f".{_name(key)}" for key in path]
    return "".join(parts).removeprefix(".") or "@"


def _name(key: str) -> str:
    return key if _IDENTIFIER.match(key) else _encode(key).decode()


def _find(value: Bytes) -> Rows | None:
    size = len(memoryview(value))
    around: list[dict[str, msgspec.Raw] | None] = []
    path: Path = ()
    scanned = 0
    for level in range(_MAX_DEPTH):
        scanned += len(memoryview(value))
        if level > _USUAL_LEVELS and scanned > _MAX_SCANNED_BYTES:
            return None
        kind = memoryview(value)[0]
        if kind == _QUOTE:
            return Rows(size, around, path, [], 0, _string(value))
        if kind == _BRACKET:
            elements = _array(value)
            if elements is None:
                return None
            if len(elements) != 1 or not _is_splittable(elements[0]):
                return _rows(size, around, path, [_Run(path, None, elements)])
            around, path, value = [*around, None], (*path, 0), elements[0]
            continue
        members = _object(value)
        if members is None:
            return None
        largest = _dominating(members, len(memoryview(value)))
        if largest is None:
            return _rows(size, around, path, [_Run(path, list(members), list(members.values()))])
        rest = {key: msgspec.Raw(b"null") if key == largest else each for key, each in members.items()}
        around, path, value = [*around, rest], (*path, largest), members[largest]
    return None


def _dominating(members: dict[str, msgspec.Raw], size: int) -> str | None:
    """The member of an object of `size` bytes that the others only stand around, if one is."""
    if not 0 < len(members) < _MAX_AROUND_BYTES // 4:
        return None
    key = max(members, key=lambda key: len(memoryview(members[key])))
    others = size - len(memoryview(members[key]))
    return key if others <= min(_MAX_AROUND_BYTES, size // 2) and _is_splittable(members[key]) else None


def _rows(size: int, around: list[dict[str, msgspec.Raw] | None], path: Path, runs: list[_Run]) -> Rows:
    for _ in range(_MAX_DEPTH):
        split = [part for run in runs for part in _split(run)]
        if len(split) == len(runs) and all(map(operator.is_, split, runs)):
            break
        runs = split
    return Rows(size, around, path, runs, sum(len(run.values) for run in runs))


def _split(run: _Run) -> Iterator[_Run]:
    """The run with each of its rows that is very large in as many rows as that has elements or members."""
    values = run.values
    longest = _LONG_ROW_BYTES * len(values)
    if sum(len(memoryview(each)) for each in values[: 2 * FIRST]) < longest and len(values) > 2 * FIRST:
        yield run
        return
    begun = 0
    for index, value in enumerate(values):
        if len(memoryview(value)) <= MAX_ROW_BYTES or not (parts := parts_of(value)):
            continue
        if begun < index:
            yield _part(run, begun, index)
        begun = index + 1
        path = run.row(index)[0]
        if isinstance(parts, dict):
            yield _Run(path, list(parts), list(parts.values()))
        else:
            yield _Run(path, None, parts)
    if begun == 0:
        yield run
    elif begun < len(values):
        yield _part(run, begun, len(values))


def _part(run: _Run, first: int, last: int) -> _Run:
    keys = None if run.keys is None else run.keys[first:last]
    return _Run(run.path, keys, run.values[first:last], run.offset + first)


def parts_of(value: msgspec.Raw) -> list[msgspec.Raw] | dict[str, msgspec.Raw] | None:
    """The elements of an array, or the members of an object; None of any other, or if they cannot be told."""
    kind = memoryview(value)[0]
    return _array(value) if kind == _BRACKET else _object(value) if kind == _BRACE else None


def _array(value: Bytes) -> list[msgspec.Raw] | None:
    """The elements of an array; None where they are too many to be made into objects."""
    raw = memoryview(value)
    if len(raw) > 2 * _MAX_ELEMENTS and bytes(raw).count(b",") >= _MAX_ELEMENTS:
        first = first_elements(value)[:FIRST]
        if sum(len(memoryview(each)) + 1 for each in first) * _MAX_ELEMENTS < FIRST * len(raw):
            return None
    return _elements(value)


def _object(value: Bytes) -> dict[str, msgspec.Raw] | None:
    """The members of an object; None where a key may be there twice."""
    members = _members(value)
    colons = b"".join(members.values()).count(b":")
    in_keys = "".join(members).count(":")
    same = bytes(memoryview(value)).count(b":") == len(members) + colons + in_keys
    return members if same else None


def _is_splittable(value: msgspec.Raw) -> bool:
    raw = memoryview(value)
    return len(raw) > len("[]") and raw[0] in (_BRACKET, _BRACE, _QUOTE)


def _closed(node: Any) -> Any:
    """A tree of dicts by key or index, with lists for those by index: what is left out leaves no gap."""
    if not isinstance(node, dict):  # a value
        return node
    closed = {key: _closed(each) for key, each in node.items()}
    return list(closed.values()) if any(isinstance(key, int) for key in closed) else closed

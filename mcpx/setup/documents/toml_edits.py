"""Edits of TOML by text spans: tables and values are added, replaced and cut out, and nothing else moves.

Called by `mcpx.setup.documents.editing`, which checks the outcome. Text in, text out. `tomlkit` says whether
a file is TOML and writes the values; where to put them is decided here, because that library moves comments
that stand between two tables.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError

from mcpx.setup.documents import DocumentError, line_end_of, nested, value_at

_EMPTY_LINE_BEFORE: Final = re.compile(r"(?:\A|(?<=\n))[ \t]*\r?\n\Z")
_EMPTY_LINE: Final = re.compile(r"[ \t]*\r?\n")
_LINE_END: Final = re.compile(r"\r?\n\Z")
Keys = tuple[str, ...]
_KEY_PART: Final = re.compile(r"""[ \t]*("(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*'|[\w-]+)[ \t]*""")
_STRING: Final = re.compile(
    r'''"""(?:[^\\]|\\(?s:.))*?"{3,5}|\'\'\'(?s:.)*?'{3,5}|"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*\''''
)
_SCALAR: Final = re.compile(r"[^\s,\]}#]+(?: \d\d:[^\s,\]}#]+)?")
_GAP: Final = re.compile(r"(?:[ \t\r\n]++|#[^\r\n]*+)*+")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?:\r?\n|\Z)")


def read(text: str) -> Any:
    """The value of a text."""
    try:
        return tomlkit.parse(text).unwrap()
    except ParseError as error:
        problem = str(error).rsplit(" at line ", 1)[0]
        raise DocumentError(f"this is not TOML: {problem}", error.line, error.col + 1) from None
    except (TOMLKitError, ValueError, RecursionError) as error:
        raise DocumentError(f"this is not TOML: {error}") from None


def set_value(text: str, path: Sequence[str | int], value: Any) -> str:
    """The text with the value at a path replaced, or added: an object as a table, anything else as a key."""
    keys, places = _keys(path), _scan(text)
    for place in places:
        if place.value and keys[: len(place.path)] == place.path:
            return _set_inline(text, place.value, keys[len(place.path) :], value)
    if any(each.path[: len(keys)] == keys for each in places):
        text = remove_value(text, keys)
        places = _scan(text)
    if isinstance(value, dict) and value:
        return _add_tables(text, places, keys, value)
    return _add_key(text, places, keys, value)


def append_item(text: str, path: Sequence[str | int], value: Any) -> str:
    """The text with one more item in the list at a path, which is written in brackets."""
    return set_value(text, path, [*(value_at(read(text), _keys(path)) or ()), value])


def remove_value(text: str, path: Sequence[str | int]) -> str:
    """The text without a key or a table, and without the tables inside it."""
    keys, places = _keys(path), _scan(text)
    for index, place in reversed(list(enumerate(places))):
        if place.value and len(place.path) < len(keys) and keys[: len(place.path)] == place.path:
            return _remove_inline(text, place.value, keys[len(place.path) :])
        if place.path[: len(keys)] != keys:
            continue
        if place.value is None:
            text = _cut_table(text, place.start, places[_section_end(places, index)].end)
        elif not _in_cut_table(places, index, keys):
            text = _cut(text, place.start, place.end)
    return text


def _keys(path: Sequence[str | int]) -> Keys:
    keys = tuple(step for step in path if isinstance(step, str))
    if len(keys) < len(path):
        raise DocumentError("an item of a list cannot be edited in TOML")
    return keys


def _section_end(places: list[Place], index: int) -> int:
    """The index of the last key in the table of a place."""
    while index + 1 < len(places) and places[index + 1].value:
        index += 1
    return index


def _in_cut_table(places: list[Place], index: int, keys: Keys) -> bool:
    """Return True if the table that a key stands in is removed with its header."""
    headers = [each for each in places[:index] if each.value is None]
    return bool(headers) and headers[-1].path[: len(keys)] == keys


def _add_tables(text: str, places: list[Place], keys: Keys, value: Mapping[str, Any]) -> str:
    """The text with a new table behind its siblings, or at the end; objects in it are tables of their own."""
    beside = [
        index for index, each in enumerate(places) if keys[:-1] and each.path[: len(keys) - 1] == keys[:-1]
    ]
    at = places[_section_end(places, beside[-1])].end if beside else len(text)
    line_end = line_end_of(text)
    empty_line = line_end * 2
    tables = empty_line.join(line_end.join(lines) for lines in _tables(keys, value))
    before, after = text[:at], text[at:]
    if not before:
        return tables + line_end + after
    if not before.endswith("\n"):
        return before + empty_line + tables
    return before + line_end + tables + line_end + after


def _tables(keys: Keys, value: Mapping[str, Any]) -> list[list[str]]:
    """The lines of a table and of each one inside it."""
    inner = {key: each for key, each in value.items() if isinstance(each, dict) and each}
    lines = [
        f"[{_key(*keys)}]",
        *(f"{_key(key)} = {_inline(value[key])}" for key in value if key not in inner),
    ]
    own = [lines] if len(lines) > 1 or not inner else []
    return own + [table for key, each in inner.items() for table in _tables((*keys, key), each)]


def _add_key(text: str, places: list[Place], keys: Keys, value: Any) -> str:
    """The text with a new key in its table, which is made if there is none."""
    parent, behind = keys[:-1], 0
    table: Keys = ()
    for index, place in enumerate(places):
        if place.value is None and place.path == parent:
            return _add_line(text, places[_section_end(places, index)].end, keys[-1:], value)
        table = place.path if place.value is None else table
        if place.value and place.path[: len(parent)] == parent and len(table) < max(len(parent), 1):
            behind = place.end
            relative = keys[len(table) :]
    if behind:
        return _add_line(text, behind, relative, value)
    if parent:
        return _add_tables(text, places, parent, {keys[-1]: value})
    return _add_line(text, 0, keys, value)


def _add_line(text: str, at: int, keys: Keys, value: Any) -> str:
    """The text with a key at an offset, where a line begins or the file ends."""
    line_end = line_end_of(text)
    line = f"{_key(*keys)} = {_inline(value)}"
    if at and not text[:at].endswith("\n"):
        return text[:at] + line_end + line + text[at:]
    return text[:at] + line + line_end + text[at:]


def _set_inline(text: str, span: tuple[int, int], keys: Keys, value: Any) -> str:
    """The text with a value inside another one replaced or added; with no keys, that one itself."""
    start, end = span
    if not keys:
        return text[:start] + _inline(value) + text[end:]
    inside = _members(text, start)
    for member in inside:
        if member.value and keys[: len(member.path)] == member.path:
            return _set_inline(text, member.value, keys[len(member.path) :], value)
    at = inside[-1].end if inside else start + 1
    written = _inline(nested(keys[1:], value))
    return f"{text[:at]}{', ' if inside else ''}{_key(keys[0])} = {written}{text[at:]}"


def _remove_inline(text: str, span: tuple[int, int], keys: Keys) -> str:
    """The text without what the keys name inside an inline table."""
    inside = _members(text, span[0])
    for index, member in reversed(list(enumerate(inside))):
        if member.path[: len(keys)] == keys:
            last = index == len(inside) - 1
            start = inside[index - 1].end if last and index else member.start
            text = text[:start] + text[member.end if last else inside[index + 1].start :]
        elif member.value and keys[: len(member.path)] == member.path:
            text = _remove_inline(text, member.value, keys[len(member.path) :])
    return text


def _cut_table(text: str, start: int, end: int) -> str:
    """The text without the lines of a table, and without one empty line that sets it apart."""
    if empty := _EMPTY_LINE_BEFORE.search(text, 0, start):
        return _cut(text, empty.start(), end)
    if not start and (empty := _EMPTY_LINE.match(text, end)):
        return _cut(text, start, empty.end())
    return _cut(text, start, end)


def _cut(text: str, start: int, end: int) -> str:
    before, after = text[:start], text[end:]
    return before + after if after or text.endswith("\n") else _LINE_END.sub("", before)


def _key(*keys: str) -> str:
    """A key as it is written, dotted if it has several parts."""
    return ".".join(tomlkit.key(key).as_string() for key in keys)


def _inline(value: Any) -> str:
    """A value as it is written on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_inline(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if value is None:
        raise DocumentError("there is no null in TOML")
    try:
        return str(tomlkit.item(value).as_string())
    except (TypeError, ValueError):
        raise DocumentError("this value cannot be written as TOML") from None


# --- where the tables, keys and values of a file stand


class Place(msgspec.Struct, frozen=True):
    """A header, or a key with its value, as the path that it defines.

    `start` to `end` are its whole lines, with a comment behind it; inside an inline table it is the key with
    its value. `value` is where the value stands; a header has none.
    """

    path: Keys
    start: int
    end: int
    value: tuple[int, int] | None = None


def _scan(text: str) -> list[Place]:
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


def _members(text: str, opening: int) -> list[Place]:
    """Return the members of the inline table whose brace is at an offset."""
    if not text.startswith("{", opening):
        raise DocumentError("expected a table")
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
        inside = _members(text, at)
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

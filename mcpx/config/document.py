"""Bytes or text to plain JSON, with a location for everything that can be wrong with it.

Owns the decoding: UTF-8 (a byte order mark is tolerated), syntax errors as `file:line:column` with a hint for
the usual slips, and the memory of keys that were given twice, which plain parsers lose. Owns `Location`:
how a place inside the file is written in messages, each of which is one printable line. Pure: no I/O.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from mcpx.errors import ConfigError
from mcpx.text import kind_of, quoted

_MAX_INT_DIGITS: Final = 4000
"""Digits that become an int; Python refuses to convert longer ones, and no setting is that large."""

_TRAILING_COMMA: Final = re.compile(r",\s*[}\]]")


_NAME_SHOWN: Final = 60
"""Characters of a name in a message; more would bury the message."""


def quote(name: str) -> str:
    """The name in double quotes, escaped where it would not print, cut where it is long."""
    return quoted(name if len(name) <= _NAME_SHOWN else name[: _NAME_SHOWN - 3] + "...")


class Location(msgspec.Struct, frozen=True):
    """A place inside a configuration: `source` is the file as shown, `path` starts with `$`."""

    source: str
    path: str = "$"

    def key(self, name: str) -> Location:
        """The member `name` of this object: `$.fs`, or `$["my server"]` where the name is awkward."""
        step = f".{name}" if name.isidentifier() else f"[{quote(name)}]"
        return Location(self.source, self.path + step)

    def item(self, index: int) -> Location:
        """The item `index` (from 0) of this array."""
        return Location(self.source, f"{self.path}[{index}]")

    def error(self, problem: str) -> ConfigError:
        """The error that says what is wrong here."""
        return ConfigError(f"{self.source}: {self.path}", problem)

    def expected(self, what: str, value: Any) -> ConfigError:
        """The error for a value of the wrong kind; the value itself is not shown, it may be a secret."""
        return self.error(f"expected {what}, got {kind_of(value)}")


class JSONObject(dict[str, Any]):
    """A JSON object that remembers which of its keys were given more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated = [] if len(self) == len(pairs) else _repeats([key for key, _ in pairs])


def _repeats(keys: list[str]) -> list[str]:
    seen: set[str] = set()
    return [key for key in keys if key in seen or seen.add(key)]  # type: ignore[func-returns-value]


def decode(data: str | bytes, *, where: str) -> Any:
    """The JSON value in `data`; every object in it is a `JSONObject`.

    Raises:
        ConfigError: Not UTF-8, empty, not JSON, or nested too deeply.
    """
    text = (data if isinstance(data, str) else _as_text(data, where)).removeprefix("\ufeff")
    if not text.strip():
        raise ConfigError(f"{where}:1:1", 'the file is empty; it needs at least {"mcpServers": {...}}')
    try:
        return json.loads(text, object_pairs_hook=JSONObject, parse_int=_number)
    except json.JSONDecodeError as error:
        raise _syntax_error(text, error, where) from None
    except RecursionError:
        raise ConfigError(where, "the JSON is nested too deeply") from None


def as_object(value: Any, at: Location) -> JSONObject:
    """`value` as an object, each key of it given once.

    Raises:
        ConfigError: It is something else, or a key is given twice.
    """
    if not isinstance(value, JSONObject):
        raise at.expected("an object", value)
    if value.repeated:
        raise at.key(value.repeated[0]).error("this key is given twice")
    return value


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_INT_DIGITS else float(digits)


def _as_text(data: bytes, where: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(f"{where}:1:1", "not UTF-8 text; it looks like UTF-16: save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        problem = f"not UTF-8 text (byte 0x{data[error.start]:02x}): save it as UTF-8"
        raise ConfigError(f"{where}:{line}:{column}", problem) from None


def _syntax_error(text: str, error: json.JSONDecodeError, where: str) -> ConfigError:
    """The parser's complaint at its place; a slip that has a name is named, at the place of the slip."""
    before = len(text[: error.pos].rstrip()) - 1
    for start in (error.pos, before):
        if start >= 0 and _TRAILING_COMMA.match(text, start):
            problem = "not JSON: a comma after the last item is not allowed; remove it"
            return ConfigError(_line_and_column(text, start, where), problem)
    place = _line_and_column(text, error.pos, where)
    if text.startswith(("//", "/*", "#"), error.pos):
        return ConfigError(place, "not JSON: comments are not allowed; remove it")
    if error.pos >= len(text.rstrip()):
        return ConfigError(place, "not JSON: it ends too early, a bracket or a quote is not closed")
    problem = error.msg.removesuffix(" at").removesuffix(" starting")
    return ConfigError(place, f"not JSON: {problem[0].lower()}{problem[1:]}")


def _line_and_column(text: str, position: int, where: str) -> str:
    """`file:line:column`, both from 1, columns in characters."""
    line = text.count("\n", 0, position) + 1
    return f"{where}:{line}:{position - text.rfind(chr(10), 0, position)}"

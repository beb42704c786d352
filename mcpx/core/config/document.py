"""Bytes or text to plain JSON, with a location for everything that can be wrong with it.

Owns the decoding: UTF-8 (a byte order mark is tolerated), and syntax errors as `file:line:column`; comments
and trailing commas are none (`mcpx.core.documents.jsonc`). Owns `Location`: how a place inside the file is
written in messages, each of which is one printable line. Pure: no I/O.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.core.documents.jsonc import BOM, JSONCError, JSONObject, line_and_column, loads
from mcpx.core.text import kind_of, quoted
from mcpx.errors import ConfigError

_NAME_SHOWN: Final = 60
"""Characters of a name in a message; more would bury the message."""


def quote(name: str) -> str:
    """The name in double quotes, escaped where it would not print, cut where it is long."""
    return quoted(name if len(name) <= _NAME_SHOWN else name[: _NAME_SHOWN - 3] + "...")


class Location(msgspec.Struct, frozen=True):
    """A place inside a configuration: `source` is the file as shown, `steps` lead there from the top.

    `is_key` is whether the last step's key is meant, and not its value.
    """

    source: str
    steps: tuple[str | int, ...] = ()
    is_key: bool = False

    @property
    def path(self) -> str:
        """The place in a message: `$`, `$.fs.args[1]`, or `$["my server"]` where a name is awkward."""
        return "$" + "".join(map(_step, self.steps))

    def key(self, name: str) -> Location:
        """The value of the member `name` of this object."""
        return Location(self.source, (*self.steps, name))

    def name(self, name: str) -> Location:
        """The key of the member `name` of this object."""
        return Location(self.source, (*self.steps, name), is_key=True)

    def item(self, index: int) -> Location:
        """The item `index` (from 0) of this array."""
        return Location(self.source, (*self.steps, index))

    def holds(self, other: Location) -> bool:
        """Whether another place is this one, or inside it."""
        return other.steps[: len(self.steps)] == self.steps

    def error(self, problem: str) -> LocatedError:
        """The error that says what is wrong here."""
        return LocatedError(self, problem)

    def expected(self, what: str, value: Any) -> LocatedError:
        """The error for a value of the wrong kind; the value itself is not shown, it may be a secret."""
        return self.error(f"expected {what}, got {kind_of(value)}")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.isidentifier() else f"[{quote(step)}]"


class JSONSyntaxError(ConfigError):
    """The file is not JSON, from the character at `offset` on."""

    def __init__(self, text: str, error: JSONCError, where: str) -> None:
        line, column = line_and_column(text, error.offset)
        hint = "; mcpx import reads such files" if "looks like" in error.problem else ""
        super().__init__(f"{where}:{line}:{column}", f"not JSON: {error.problem}{hint}")
        self.offset = error.offset


class LocatedError(ConfigError):
    """Something wrong at one place of the file.

    `server` is the one whose entry it is in, which alone it disables; None where it spoils the whole file.
    """

    def __init__(self, at: Location, problem: str) -> None:
        super().__init__(f"{at.source}: {at.path}", problem)
        self.at = at
        self.server: str | None = None


def as_text(data: str | bytes, *, where: str) -> str:
    """The text of a file, without its byte order mark.

    Raises:
        ConfigError: Not UTF-8, or empty.
    """
    text = (data if isinstance(data, str) else _decoded(data, where)).removeprefix(BOM)
    if not text.strip():
        raise ConfigError(f"{where}:1:1", 'the file is empty; it needs at least {"mcpServers": {}}')
    return text


def decode(text: str, *, where: str) -> Any:
    """The JSON value in `text`, which may hold comments; every object in it is a `JSONObject`.

    Raises:
        JSONSyntaxError: It is not JSON.
    """
    try:
        return loads(text)
    except JSONCError as error:
        raise JSONSyntaxError(text, error, where) from None


def as_object(value: Any, at: Location) -> JSONObject:
    """`value` as an object, each key of it given once.

    Raises:
        LocatedError: It is something else, or a key is given twice.
    """
    if not isinstance(value, JSONObject):
        raise at.expected("an object", value)
    if value.repeated:
        raise at.name(value.repeated[0]).error("this key is given twice")
    return value


def _decoded(data: bytes, where: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(f"{where}:1:1", "not UTF-8 text; it looks like UTF-16: save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        problem = f"not UTF-8 text (byte 0x{data[error.start]:02x}): save it as UTF-8"
        raise ConfigError(f"{where}:{line}:{column}", problem) from None

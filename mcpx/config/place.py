"""Where a value stands in a configuration, and how that is said to its author.

Owns the one way in which places, kinds of values and names are written in messages. Used by every module of
this package. Promises that what it writes is one printable line.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mcpx.errors import ConfigError
from mcpx.text import quoted

_NAME_SHOWN = 60
"""Characters of a name in a message; more would bury the message."""


def quote(name: str) -> str:
    """The name in double quotes, escaped where it would not print, cut where it is long."""
    cut = name if len(name) <= _NAME_SHOWN else name[: _NAME_SHOWN - 3] + "..."
    return quoted(cut)


def kind_of(value: Any) -> str:
    """The JSON kind of a value with its article: `a string`, `an array`, ..."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


class Place(msgspec.Struct, frozen=True):
    """A place inside a configuration: `source` is the file as shown, `path` starts with `$`."""

    source: str
    path: str = "$"

    def key(self, name: str) -> Place:
        """The member `name` of this object: `$.fs`, or `$["my server"]` where the name is awkward."""
        step = f".{name}" if name.isidentifier() else f"[{quote(name)}]"
        return Place(self.source, self.path + step)

    def item(self, index: int) -> Place:
        """The item `index` (from 0) of this array."""
        return Place(self.source, f"{self.path}[{index}]")

    def error(self, problem: str) -> ConfigError:
        """The error that says what is wrong here."""
        return ConfigError(f"{self.source}: {self.path}", problem)

    def expected(self, what: str, value: Any) -> ConfigError:
        """The error for a value of the wrong kind; the value itself is not shown, it may be a secret."""
        return self.error(f"expected {what}, got {kind_of(value)}")

"""The kinds of values a configuration may hold: each one checks a value and describes itself.

Owns the checks. A check's `read` gives the value in its Python form or raises a `ConfigError` at its place;
its `schema` is the same rule as JSON Schema. Both stand side by side so that they cannot part. Used by the
tables of settings and of server keys, and by the schema.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, Protocol

import msgspec

from mcpx.config.document import members
from mcpx.config.place import Place, quote

JSON = dict[str, Any]

LONGEST: Final = 31_536_000
"""The longest duration, one year in seconds: longer ones are slips, and timers need a bound."""

_NOT_TEXT: Final = re.compile("[\x00\ud800-\udfff]")
_DIGITS_SHOWN: Final = 24


class Check(Protocol):
    """What a value must be."""

    def read(self, value: Any, at: Place) -> Any:
        """The value in its Python form.

        Raises:
            ConfigError: it is not what it must be.
        """

    def schema(self) -> JSON:
        """The same rule as JSON Schema, without description and default."""


class Flag(msgspec.Struct, frozen=True):
    """True or false."""

    def read(self, value: Any, at: Place) -> bool:
        """`value`, when it is a boolean."""
        if not isinstance(value, bool):
            raise at.expected("true or false", value)
        return value

    def schema(self) -> JSON:
        """A boolean."""
        return {"type": "boolean"}


class Seconds(msgspec.Struct, frozen=True):
    """A duration in seconds: above zero, at most a year."""

    def read(self, value: Any, at: Place) -> float:
        """`value` as a float."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise at.expected("a number of seconds", value)
        if not 0 < value <= LONGEST:
            raise at.error(f"expected seconds above 0 and at most {LONGEST}, got {_shown(value)}")
        return float(value)

    def schema(self) -> JSON:
        """A bounded number."""
        return {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST}


class Whole(msgspec.Struct, frozen=True):
    """A whole number in a range, both ends included; `8.0` is one, as in JSON Schema."""

    minimum: int
    maximum: int

    def read(self, value: Any, at: Place) -> int:
        """`value` as an int."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise at.expected("a whole number", value)
        whole = isinstance(value, int) or value.is_integer()
        if not whole or not self.minimum <= value <= self.maximum:
            raise at.error(
                f"expected a whole number from {self.minimum} to {self.maximum}, got {_shown(value)}"
            )
        return int(value)

    def schema(self) -> JSON:
        """A bounded integer."""
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


class Choice(msgspec.Struct, frozen=True):
    """One of a few words."""

    options: tuple[str, ...]

    def read(self, value: Any, at: Place) -> str:
        """`value`, when it is one of the options."""
        if not isinstance(value, str):
            raise at.expected("a string", value)
        if value not in self.options:
            listed = ", ".join(quote(option) for option in self.options)
            raise at.error(f"expected one of {listed}, got {quote(value)}")
        return value

    def schema(self) -> JSON:
        """An enumeration."""
        return {"enum": list(self.options)}


class Text(msgspec.Struct, frozen=True):
    """A string; `filled` ones hold at least one character. `pattern` is for the schema alone."""

    filled: bool = False
    pattern: str | None = None

    def read(self, value: Any, at: Place) -> str:
        """`value`, when it is a string that a program can be given."""
        if not isinstance(value, str):
            raise at.expected("a string", value)
        if self.filled and not value:
            raise at.error("expected a string, got an empty one")
        if bad := _NOT_TEXT.search(value):
            raise at.error(f"the string holds a character that is not text (U+{ord(bad[0]):04X})")
        return value

    def schema(self) -> JSON:
        """A string."""
        rules: JSON = {"type": "string"}
        if self.filled:
            rules["minLength"] = 1
        if self.pattern:
            rules["pattern"] = self.pattern
        return rules


class Texts(msgspec.Struct, frozen=True):
    """A list of strings."""

    item: Text = Text()

    def read(self, value: Any, at: Place) -> tuple[str, ...]:
        """`value` as a tuple."""
        if not isinstance(value, list):
            raise at.expected("an array of strings", value)
        return tuple(self.item.read(each, at.item(index)) for index, each in enumerate(value))

    def schema(self) -> JSON:
        """An array of strings."""
        return {"type": "array", "items": self.item.schema()}


class NamedTexts(msgspec.Struct, frozen=True):
    """An object of strings whose names match `names`, called `what` in messages.

    With `numbers`, a number stands for its digits and `null` for a name that is left out, as in VS Code.
    """

    what: str
    names: str
    numbers: bool = False

    def read(self, value: Any, at: Place) -> dict[str, str]:
        """`value` as a dict of strings."""
        found = {}
        for name, each in members(value, at).items():
            if not re.fullmatch(self.names, name) or _NOT_TEXT.search(name):
                raise at.key(name).error(f"{quote(name)} cannot be the name of {self.what}")
            if not (self.numbers and each is None):
                found[name] = self._text(each, at.key(name))
        return found

    def _text(self, value: Any, at: Place) -> str:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return json.dumps(value) if self.numbers and number else Text().read(value, at)

    def schema(self) -> JSON:
        """An object of strings."""
        kinds = ["string", "number", "null"] if self.numbers else "string"
        names = {"pattern": f"^(?:{self.names})$"}
        return {"type": "object", "propertyNames": names, "additionalProperties": {"type": kinds}}


def _shown(number: float) -> str:
    digits = json.dumps(number)
    return digits if len(digits) <= _DIGITS_SHOWN else digits[:_DIGITS_SHOWN] + "..."

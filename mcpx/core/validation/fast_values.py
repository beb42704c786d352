"""The parts of a fast check that look at one value: its type, an enumeration, a length, a range. Pure.

`fast` puts them together. A part accepts only what jsonschema surely accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

Check = Callable[[Any], bool]

_LENGTH: Final = frozenset({"minLength", "maxLength"})
_RANGE: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
TYPES: Final[dict[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),  # exactly: a bool is no integer, and 1.0 is left to jsonschema
    "number": frozenset({int, float}),
    "null": frozenset({type(None)}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}


class Unsupported(Exception):  # noqa: N818 - a condition
    """The schema uses a keyword, or a form of one, that the fast check does not know."""


class Part:
    """One check; `weight` is how many of its parts look at one value at most."""

    __slots__ = ("accepts", "types", "weight")

    def __init__(self, accepts: Check, weight: int = 1, types: frozenset[type] | None = None) -> None:
        self.accepts = accepts
        self.weight = weight
        self.types = types
        """The only types that it accepts, where that is known."""


NO_LIMIT: Final = 1 << 62


def of_text_and_numbers(schema: dict[str, Any]) -> Iterator[Part]:
    """Yield a part for each keyword about texts, numbers and enumerations."""
    said = schema.keys()
    if said & _LENGTH:
        yield _length(schema.get("minLength", 0), schema.get("maxLength"))
    for word in said & _RANGE:
        yield _range(word, schema[word])
    if "enum" in said:
        yield _one_of(schema["enum"])
    if "const" in said:
        yield _one_of([schema["const"]])


def accept_all(_value: Any) -> bool:
    """Accept anything."""
    return True


def named_types(named: Any) -> frozenset[type]:
    """Return the Python types that `type` names.

    Raises:
        Unsupported: There is an unknown one among them.
    """
    names = [named] if isinstance(named, str) else listed(named)
    found: frozenset[type] = frozenset()
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            raise Unsupported
        found |= TYPES[name]
    return found


def of_type(types: frozenset[type]) -> Check:
    """Make a check that accepts exactly these types."""
    if len(types) == 1:
        (kind,) = types
        return lambda value: type(value) is kind
    return lambda value: type(value) in types


def either(parts: list[Part]) -> Part:
    """Make a part that accepts what any of `parts` does."""
    checks = tuple(part.accepts for part in parts)
    types: frozenset[type] | None = frozenset()
    for part in parts:
        types = None if types is None or part.types is None else types | part.types
    weight = sum(part.weight for part in parts)
    return Part(lambda value: any(check(value) for check in checks), weight, types)


def _one_of(options: Any) -> Part:
    """Of strings and null only: Python and JSON disagree which numbers and booleans are equal."""
    if not all(type(option) is str or option is None for option in listed(options)):
        raise Unsupported
    allowed = frozenset(options)
    types = frozenset(type(option) for option in options)
    return Part(lambda value: type(value) in types and value in allowed, 1, types)


def _length(least: Any, most: Any) -> Part:
    low, high = count(least), count(NO_LIMIT if most is None else most)
    return Part(lambda value: type(value) is not str or low <= len(value) <= high)


def _range(word: str, bound: Any) -> Part:
    if type(bound) is not int and type(bound) is not float:
        raise Unsupported
    numbers = TYPES["number"]
    match word:
        case "minimum":
            return Part(lambda value: type(value) not in numbers or value >= bound)
        case "maximum":
            return Part(lambda value: type(value) not in numbers or value <= bound)
        case "exclusiveMinimum":
            return Part(lambda value: type(value) not in numbers or value > bound)
        case _:
            return Part(lambda value: type(value) not in numbers or value < bound)


def count(value: Any) -> int:
    """Return a number of items or characters.

    Raises:
        Unsupported: It is no integer.
    """
    if type(value) is not int:
        raise Unsupported
    return value


def listed(value: Any) -> list[Any]:
    """Return a list as it is.

    Raises:
        Unsupported: It is none.
    """
    if type(value) is not list:
        raise Unsupported
    return value

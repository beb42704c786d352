"""A quick yes to arguments that a plain JSON Schema surely accepts: pure.

Most tools take an object of strings, numbers and the like. For such a schema this makes a function that is
true only where jsonschema would find no error, at a tenth of its cost; where it is false, or where a schema
says more than is known here, jsonschema decides and explains. It can therefore never let anything through,
nor refuse anything: a property test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Check = Callable[[Any], bool]

_SAYS_NOTHING: Final = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$schema",
        "$comment",
    }
)
_OBJECT: Final = frozenset({"type", "properties", "required", "additionalProperties"})
_SCALARS: Final = {"string": str, "boolean": bool, "integer": int, "null": type(None)}


def quick_check(schema: Any) -> Check | None:
    """A function that is true only for what `schema` surely accepts; None where that cannot be told."""
    if not isinstance(schema, dict):
        return None
    says = schema.keys() - _SAYS_NOTHING
    if says == {"type"} and isinstance(schema["type"], str):
        return _of_type(schema["type"])
    if says <= {"type", "enum"} and says >= {"enum"}:
        return _one_of(schema)
    if schema.get("type") == "object" and says <= _OBJECT:
        return _object(schema)
    if schema.get("type") == "array" and says == {"type", "items"}:
        return _array(schema["items"])
    return None


def _of_type(name: str) -> Check | None:
    if name == "number":
        return lambda value: type(value) is float or type(value) is int
    if name == "array":
        return lambda value: type(value) is list
    if name == "object":
        return lambda value: type(value) is dict
    kind = _SCALARS.get(name)  # exactly: a bool is no integer, and 1.0 is left to jsonschema
    return None if kind is None else lambda value: type(value) is kind


def _one_of(schema: dict[str, Any]) -> Check | None:
    """Strings only: of numbers and booleans Python and JSON do not agree which are equal."""
    options = schema["enum"]
    if schema.get("type", "string") != "string" or not all(type(option) is str for option in options):
        return None
    allowed = frozenset(options)
    return lambda value: type(value) is str and value in allowed


def _array(items: Any) -> Check | None:
    check = quick_check(items)
    if check is None:
        return None
    return lambda value: type(value) is list and all(check(item) for item in value)


def _object(schema: dict[str, Any]) -> Check | None:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    more = schema.get("additionalProperties", True)
    if not isinstance(properties, dict) or not isinstance(required, list) or not isinstance(more, bool):
        return None
    checks = {name: quick_check(child) for name, child in properties.items()}
    known = {name: check for name, check in checks.items() if check is not None}
    if len(known) < len(checks):
        return None
    needed = frozenset(required)

    def fits(value: Any) -> bool:
        if type(value) is not dict or not needed <= value.keys():
            return False
        for name, item in value.items():
            check = known.get(name)
            if check is None:
                if not more:
                    return False
            elif not check(item):
                return False
        return True

    return fits

"""What the keywords of one schema mean, read one schema at a time: its types, what has no TypeScript form.

Pure; called by the walker. `Inexpressible` is this package's word for "show the JSON instead".
"""

from __future__ import annotations

from typing import Any, Final

from mcpx.catalog.model import JSON

TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})

_OBJECT: Final = frozenset(
    [
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependentRequired",
        "dependencies",
    ],
)
_ARRAY: Final = frozenset(["items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"])
_STRING: Final = frozenset(["minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType"])
_NUMBER: Final = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
_MEMBERS: Final = frozenset(["properties", "required", "patternProperties", "propertyNames"])
_ITEMS: Final = frozenset(["items", "prefixItems"])
_FAMILIES: Final = {"object": _OBJECT, "array": _ARRAY, "string": _STRING, "number": _NUMBER}

ANNOTATIONS: Final = frozenset(
    [
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "nullable",
        "$schema",
        "$id",
        "id",
        "$comment",
        "$defs",
        "definitions",
        "$anchor",
        "$vocabulary",
    ],
)
_CHANGE_MEANING: Final = frozenset(
    ["not", "dependentSchemas", "contains", "$dynamicRef", "$recursiveRef", "extends", "disallow"],
)
_SHAPES: Final = {
    "properties": dict,
    "patternProperties": dict,
    "required": list,
    "enum": list,
    "anyOf": list,
    "oneOf": list,
    "allOf": list,
    "prefixItems": list,
    "additionalProperties": dict | bool,
    "additionalItems": dict | bool,
    "propertyNames": dict | bool,
    "items": dict | bool | list,
}


class Inexpressible(ValueError):  # noqa: N818 - says what the schema is
    """A schema that TypeScript cannot say; its JSON has to be shown."""


def refuse_inexpressible(schema: JSON) -> None:
    """Raises `Inexpressible` where a keyword changes the meaning beyond types, or is not of its kind."""
    conditional = "if" in schema and ("then" in schema or "else" in schema)
    closing = (schema.get("unevaluatedProperties"), schema.get("unevaluatedItems"))
    needs = [schema[word] for word in ("dependencies", "dependentRequired") if word in schema]
    depends = any(
        not isinstance(need, dict) or any(type(n) is not list for n in need.values()) for need in needs
    )
    if (
        conditional
        or depends
        or not _CHANGE_MEANING.isdisjoint(schema)
        or any(isinstance(rest, dict) and rest for rest in closing)
        or any(word in schema and not isinstance(schema[word], kind) for word, kind in _SHAPES.items())
        or any(schema.get(word) == [] for word in ("anyOf", "oneOf", "allOf", "enum"))
    ):
        raise Inexpressible


def stated_types(schema: JSON) -> tuple[str, ...]:
    """The types in `type`, none twice; empty without it. Raises `Inexpressible` for an unheard-of one."""
    if "type" not in schema:
        return ()
    stated = schema["type"]
    types = [stated] if isinstance(stated, str) else stated
    if not isinstance(types, list) or not types or not all(isinstance(t, str) and t in TYPES for t in types):
        raise Inexpressible
    return tuple(dict.fromkeys(types))


def shaped_types(schema: JSON) -> tuple[str, ...]:
    """Of `object` and `array`, those whose members or items are described, whatever `type` says."""
    rest = schema.get("additionalProperties")
    kinds = ("object", "array")
    given = (
        not _MEMBERS.isdisjoint(schema) or (isinstance(rest, dict) and bool(rest)),
        not _ITEMS.isdisjoint(schema),
    )
    return tuple(kind for kind, is_given in zip(kinds, given, strict=True) if is_given)


def inferred_types(schema: JSON) -> tuple[str, ...]:
    """The type that a schema without `type` must mean by its other keywords; empty if it accepts anything.

    Raises `Inexpressible` where they point to several types, or to none that is known here.
    """
    kinds = tuple(kind for kind, words in _FAMILIES.items() if not words.isdisjoint(schema))
    if len(kinds) > 1 or (not kinds and not ANNOTATIONS.issuperset(schema)):
        raise Inexpressible
    return kinds


def admitted(types: tuple[str, ...]) -> frozenset[str]:
    """The types as a set, with `integer` where there is `number`."""
    return frozenset(types) | ({"integer"} if "number" in types else set())


def values(schema: JSON, types: tuple[str, ...]) -> list[Any] | None:
    """The values that `enum` and `const` leave, of the types stated; None without either keyword."""
    if "enum" not in schema and "const" not in schema:
        return None
    listed = schema.get("enum", [schema.get("const")])
    if "const" in schema:
        listed = [value for value in listed if _same(value, schema["const"])]
    return [value for value in listed if not types or type_of(value) in admitted(types)]


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


def type_of(value: Any) -> str:
    """The narrowest JSON Schema type of a JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"

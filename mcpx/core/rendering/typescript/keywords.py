"""Meanings of the keywords of one schema: its types, its branches, what has no TypeScript form. Pure.

Called by the walk. `Inexpressible` says that the schema's JSON has to be shown instead. A branch of `anyOf`,
`oneOf` or `allOf` often leaves out what its parent has said, and would be `unknown` alone.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from mcpx.core.catalog.model import JSON
from mcpx.core.rendering.typescript import types as ts
from mcpx.core.rendering.typescript.types import Member, TSType

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
    ]
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
    ]
)
_CHANGE_MEANING: Final = frozenset(
    ["not", "dependentSchemas", "contains", "$dynamicRef", "$recursiveRef", "extends", "disallow"]
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

_OWN_TYPE: Final = frozenset(["type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf", "not"])
_REQUIRING: Final = frozenset(["required", "title", "description"])


class Inexpressible(ValueError):
    """A schema that TypeScript cannot say; its JSON has to be shown."""


def refuse_inexpressible(schema: JSON) -> None:
    """Check that every keyword can be said in types and is of its kind.

    Raises:
        Inexpressible: One is not.
    """
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
    """Return the types in `type`, none twice; empty without it.

    Raises:
        Inexpressible: There is an unknown one among them.
    """
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
    """Return the type that a schema without `type` must mean; empty if it accepts anything.

    Raises:
        Inexpressible: Its keywords point to several types, or to none that is known here.
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
    return "integer" if isinstance(value, float) and value.is_integer() else written_type_of(value)


def written_type_of(value: Any) -> str:
    """The JSON Schema type of a JSON value as it is written: that of 1.0 is `number`."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def for_branch(parent: JSON, types: tuple[str, ...], branch: Any) -> Any:
    """A branch with what it leaves to its parent: its own type, and those of the names it requires."""
    if not isinstance(branch, dict) or not _OWN_TYPE.isdisjoint(branch):
        return branch
    given = {"type": list(types), **branch} if types else branch
    names, known, own = branch.get("required"), parent.get("properties"), branch.get("properties", {})
    if not (isinstance(names, list) and isinstance(known, dict) and isinstance(own, dict)):
        return given
    lent = {
        name: _without_annotations(known[name])
        for name in names
        if isinstance(name, str) and name in known and name not in own
    }
    return {**given, "properties": lent | own} if lent else given


def _without_annotations(schema: Any) -> Any:
    """The schema without its annotations, which stand at the parent."""
    if not isinstance(schema, dict):
        return schema
    return {word: value for word, value in schema.items() if word not in ANNOTATIONS or word == "$id"}


def required_names(schema: JSON, word: str) -> list[list[Any]] | None:
    """The names in each branch of `anyOf` or `oneOf`, if all that every branch does is require some."""
    branches = schema.get(word)
    if "properties" not in schema or not isinstance(branches, list):
        return None
    only = all(isinstance(b, dict) and b.get("required") and _REQUIRING.issuperset(b) for b in branches)
    lists = [branch["required"] for branch in branches] if only else []
    return lists if lists and all(isinstance(names, list) for names in lists) else None


# --- objects and arrays: called by the walk once it has checked that each keyword is of its kind


class Child(Protocol):
    """The walk, from one schema down into the next."""

    def __call__(self, inner: Any, name: str = "", *, required: bool = False) -> TSType:
        """The type of `inner`, which is the property `name` if that is given."""


def array_type(schema: JSON, child: Child) -> TSType:
    """`T[]`, or a tuple for `prefixItems` and for the older form, a list in `items`."""
    items = schema.get("items", True)
    older = isinstance(items, list)
    prefix = items if older else schema.get("prefixItems", [])
    rest = schema.get("additionalItems" if older else "items")
    if not prefix and rest is not False:
        return ts.array_of(child(True if rest is None else rest))
    inner = [child(item) for item in prefix]
    return ts.tuple_of(inner, child(rest) if rest is not None and rest is not False else None)


def object_type(schema: JSON, child: Child) -> TSType:
    """`{name: T, other?: T, [key: string]: T}`, `{}`, or `object` if nothing at all is known of it."""
    required = schema.get("required", [])
    if not all(isinstance(name, str) for name in required):
        raise Inexpressible
    properties = schema.get("properties", {})
    needed = frozenset(required)
    unlisted = dict.fromkeys(name for name in required if name not in properties)
    members = [
        Member(name, child(inner, name, required=name in needed).written(), name in needed)
        for name, inner in properties.items()
    ]
    if unlisted and schema.get("patternProperties"):  # their type is that of whichever pattern fits
        raise Inexpressible
    rest = schema.get("additionalProperties")
    others = child(True if rest is None else rest).written()  # once, or nesting would double the work
    members += [Member(name, others, required=True, stated=False) for name in unlisted]
    signatures = [*_patterns(schema, child), *_rest(schema, others, child)]
    bare = rest in (True, {}) if "properties" in schema else rest is not False
    if bare and not members and not signatures:
        return ts.named("object", "object")
    return ts.object_of(members, signatures)


def _patterns(schema: JSON, child: Child) -> list[str]:
    """Return an index signature for each of `patternProperties`."""
    return [
        f"[key: {child({'type': 'string', 'pattern': pattern}).written()}]: {child(inner).written()}"
        for pattern, inner in schema.get("patternProperties", {}).items()
    ]


def _rest(schema: JSON, others: str, child: Child) -> list[str]:
    """Return the index signature for all other names, of type `others`, if the schema has any."""
    names, rest = schema.get("propertyNames", True), schema.get("additionalProperties")
    listed = any(schema.get(word) for word in ("properties", "required", "patternProperties"))
    if names not in (True, {}, {"type": "string"}):
        if listed:  # it binds the listed names too, which no signature says
            raise Inexpressible
        return [] if rest is False else [f"[key: {child(names).written()}]: {others}"]
    open_anyway = rest in (True, {}) and not listed
    return [] if rest in (None, False) or open_anyway else [f"[key: string]: {others}"]

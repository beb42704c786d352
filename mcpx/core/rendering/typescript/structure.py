"""Objects and arrays: the keywords for members and items as types.

Called by the walk once it has checked that each keyword is of its kind. `child(schema, name, required=...)`
is the walk again, and returns the type of an inner schema.
"""

from __future__ import annotations

from typing import Any, Protocol

from mcpx.core.catalog.model import JSON
from mcpx.core.rendering.typescript import types as ts
from mcpx.core.rendering.typescript.keywords import Inexpressible
from mcpx.core.rendering.typescript.types import Member, TSType


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

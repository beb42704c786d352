"""References of a schema that lead nowhere, or in a circle. Pure.

A schema may refer to itself below a member or an item: each round takes a level of the arguments. One that
refers to itself in place (`{"$ref": "#"}`, two definitions that name each other) would be checked for ever.
Only what can be reached from the root counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mcpx.core.rendering.typescript.refs import References, Unresolvable

_IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "extends", "disallow")
_BELOW: Final = (
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_MAPS_BELOW: Final = ("properties", "patternProperties")
_MAPS_IN_PLACE: Final = ("dependentSchemas", "dependencies")
_BASES: Final = ("$id", "id", "$anchor", "$dynamicAnchor")


def bad_reference(schema: Any) -> str | None:
    """Say what is wrong with the references; None if nothing is, or it is not known."""
    walk = _Walk(schema)
    pending: list[Any] = [schema]
    seen: set[int] = set()
    while pending:
        each = pending.pop()
        if not isinstance(each, dict) or id(each) in seen:
            continue
        seen.add(id(each))
        if each is not schema and any(isinstance(each.get(word), str) for word in _BASES):
            return None  # references have another base from here on, or names of their own
        try:
            pending += [*walk.in_place(each), *_below(each)]
        except Unresolvable as error:
            return f"the reference {error} leads nowhere here, and nothing is fetched"
    return walk.circle(schema)


class _Walk:
    def __init__(self, root: Any) -> None:
        self._references = References(root)
        self._root = root

    def in_place(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Yield the subschemas that apply to the same value.

        Raises:
            Unresolvable: A reference leads nowhere.
        """
        ref = schema.get("$ref")
        if isinstance(ref, str) and not self._is_name(ref):
            try:
                yield self._references.find(self._references.path(ref))
            except Unresolvable:
                raise Unresolvable(ref) from None
        for word in _IN_PLACE:
            inner = schema.get(word)
            yield from inner if isinstance(inner, list) else [inner]
        for word in _MAPS_IN_PLACE:
            if isinstance(inner := schema.get(word), dict):
                yield from inner.values()

    def _is_name(self, ref: str) -> bool:
        """True if it may be an anchor, or reach into a schema with a base of its own: jsonschema knows."""
        return (ref.startswith("#") and ref[1:2] not in {"", "/"}) or (
            not ref.startswith("#") and isinstance(self._root, dict) and bool(self._root.keys() & set(_BASES))
        )

    def circle(self, schema: Any) -> str | None:
        """Say whether some value would be checked for ever: search from each reachable subschema."""
        done: set[int] = set()
        starts: list[Any] = [schema]
        begun: set[int] = set()
        while starts:
            start = starts.pop()
            if not isinstance(start, dict) or id(start) in begun:
                continue
            begun.add(id(start))
            if self._circle_from(start, done):
                return "the schema refers to itself without end"
            starts += [*self.in_place(start), *_below(start)]
        return None

    def _circle_from(self, start: dict[str, Any], done: set[int]) -> bool:
        """Search depth first along what applies in place; `done` are subschemas without a circle."""
        path: set[int] = set()
        stack: list[tuple[dict[str, Any], Iterator[Any]]] = []

        def enter(each: dict[str, Any]) -> None:
            path.add(id(each))
            stack.append((each, self.in_place(each)))

        if id(start) not in done:
            enter(start)
        while stack:
            current, rest = stack[-1]
            following = next((each for each in rest if isinstance(each, dict) and id(each) not in done), None)
            if following is None:
                stack.pop()
                path.discard(id(current))
                done.add(id(current))
            elif id(following) in path:
                return True
            else:
                enter(following)
        return False


def _below(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield the subschemas that apply to members and items."""
    for word in _BELOW:
        inner = schema.get(word)
        yield from inner if isinstance(inner, list) else [inner]
    for word in _MAPS_BELOW:
        if isinstance(inner := schema.get(word), dict):
            yield from inner.values()

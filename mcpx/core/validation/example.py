"""An example of a tool's arguments, made of what its schema says. Pure.

Examples and defaults give the values; what is required beside them gets its first allowed value, or a
placeholder of its type. An example is given only if it surely fits the schema, and has a value from an
example or default: the type shows all else.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, as_list
from mcpx.core.rendering.typescript.refs import References, Unresolvable
from mcpx.core.validation.bounds import MAX_SCHEMA_VALUES, why_too_large
from mcpx.core.validation.fast import fast_check

MAX_EXAMPLE_CHARS: Final = 400  # of JSON; a longer one costs more than it helps
_MAX_OPTIONAL: Final = 2  # parameters that could be left out
_MAX_DEPTH: Final = 5
_FORMATS: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "email": "name@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
}


class _Unknown(Exception):
    """Nothing can be said of a value."""


def example_arguments(schema: JSON) -> JSON | None:
    """Arguments that a call could have; None where the schema gives nothing to show."""
    if why_too_large(schema, MAX_SCHEMA_VALUES // 10) is not None:
        return None
    try:
        made = _Maker(schema).arguments()
        if made is None or len(msgspec.json.encode(made)) > MAX_EXAMPLE_CHARS:
            return None
    except Exception:  # noqa: BLE001 - a malformed schema has no example, and costs nothing else
        return None
    check = fast_check(schema)
    return made if check is not None and check.accepts(made) else None


class _Maker:
    """Makes the example of one schema. `told` is whether the schema itself gave any of the values."""

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._references = References(root)
        self.told = False

    def arguments(self) -> JSON | None:
        """The example, or None."""
        for given in (*as_list(self._root.get("examples")), self._root.get("example")):
            if isinstance(given, dict):
                return given
        made = self._object(self._root, 0)
        return made if self.told else None

    def _object(self, schema: JSON, depth: int) -> JSON:
        named = schema.get("properties", {})
        required = [name for name in as_list(schema.get("required")) if name in named]
        made = {name: self._value(named[name], name, depth) for name in required}
        optional = [name for name in named if name not in made]
        for has in (_examples, _defaults):
            chosen = [name for name in optional if has(self._followed(named[name]))] if depth == 0 else []
            if chosen and (has is _examples or not self.told):
                made |= {name: self._value(named[name], name, depth) for name in chosen[:_MAX_OPTIONAL]}
        return made

    def _value(self, schema: Any, name: str, depth: int) -> Any:
        schema = self._followed(schema)
        if known := [*_examples(schema), *_defaults(schema)]:
            self.told = True
            return known[0]
        if values := _enumerated(schema):
            return values[0]
        for keyword in ("anyOf", "oneOf", "allOf"):
            branches = [
                b for b in map(self._followed, as_list(schema.get(keyword))) if b.get("type") != "null"
            ]
            if branches and depth < _MAX_DEPTH:
                return self._value(branches[0], name, depth + 1)
        return self._placeholder(schema, name, depth)

    def _placeholder(self, schema: JSON, name: str, depth: int) -> Any:
        kinds = schema.get("type")
        kind = kinds if isinstance(kinds, str) else next((k for k in as_list(kinds) if k != "null"), None)
        match kind:
            case "string":
                return _FORMATS.get(schema.get("format", ""), f"<{name}>")
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "boolean":
                return True
            case "array" if depth < _MAX_DEPTH:
                return [self._value(schema["items"], name, depth + 1)] if "items" in schema else []
            case "object" if depth < _MAX_DEPTH:
                return self._object(schema, depth + 1)
        raise _Unknown(name)

    def _followed(self, schema: Any) -> JSON:
        """The schema that a reference leads to."""
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, dict):
                raise _Unknown
            if "$ref" not in schema or _examples(schema) or _defaults(schema):
                return schema
            schema = self._references.find(self._references.path(schema["$ref"]))
        raise Unresolvable


def _examples(schema: JSON) -> list[Any]:
    given = schema.get("examples")
    return [
        *(given if isinstance(given, list) else ()),
        *([schema["example"]] if "example" in schema else ()),
    ]


def _defaults(schema: JSON) -> list[Any]:
    """The default, unless it is as good as none."""
    given = schema.get("default")
    return [] if given is None or given in ("", [], {}) else [given]


def _enumerated(schema: JSON) -> list[Any]:
    return [schema["const"]] if "const" in schema else as_list(schema.get("enum"))[:1]

"""Schemas of native tools in forms that known hosts, and the models behind them, do not refuse. Pure.

`mended` changes what a set of `Mend` names, and nothing else: a schema that needs none of them is the same
object. What a form cannot say (which of two arguments goes with a third) is left to the check of arguments,
which holds a call against the server's own schema and explains what is wrong. So a form may allow too much,
and never too little.

In the strict form (OpenAI's strict mode, Gemini's function declarations) every value has a type and every
member is required, so that a model writes null for what it leaves out and JSON for what has no type of its
own. `as_given` in `mcpx.core.validation.respelling` takes these back.

Each schema is walked within a budget: one that is larger, or nested more deeply, is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from mcpx.core.catalog.model import JSON, as_list
from mcpx.core.rendering.typescript.keywords import written_type_of
from mcpx.core.rendering.typescript.refs import References, Unresolvable
from mcpx.core.text import cut

Mend = Literal["top", "items", "refs", "choices", "formats", "texts", "strict"]
MEANINGS: Final[dict[Mend, str]] = {
    "top": "alternatives at the top of the schema become one object",
    "items": "arrays say what is in them",
    "refs": "references are replaced by what they name",
    "choices": "alternatives are said by anyOf, an enum of texts and single types alone",
    "formats": "formats other than date-time stand in the description",
    "texts": "a description is as long as the client takes it, and not empty",
    "strict": "every value has a type and every member is required; null and JSON stand for the rest",
}
ALL_MENDS: Final = frozenset(MEANINGS)
NOTHING: Final = "nothing"
"""The argument of a tool that takes none, where an object without members is refused."""
MAX_NODES: Final = 1_000  # the largest of 527 recorded tools has 68
MAX_DEPTH: Final = 24
_MERGED: Final = ("allOf", "anyOf", "oneOf")
_AT_TOP: Final = (*_MERGED, "not", "if", "then", "else", "enum", "const", "dependentSchemas", "dependencies")
_IN_STRICT: Final = frozenset({"type", "properties", "required", "items", "enum", "anyOf", "description"})
_ONLY_OF: Final = {"items": "array", "enum": "string", "properties": "object", "required": "object"}
"""Keywords that Gemini refuses with any other type."""
_JSON_OBJECT: Final = "an object, written as JSON"
_JSON_ANY: Final = "any value, written as JSON"


class _TooLarge(Exception):
    """The schema is beyond the budget."""


def mended(schema: JSON, mends: Iterable[Mend]) -> JSON:
    """A tool's schema with these mends; the same object where none of them changes it."""
    wanted = frozenset(mends)
    if not wanted:
        return schema
    if "strict" in wanted:
        wanted |= {"top", "items", "refs", "choices", "formats"}
    try:
        mending = _Mending(schema, wanted)
        made = mending.of(schema, ())
        if "top" in wanted:
            made = _flat(made)
        if "strict" in wanted:
            made = _strict_top(made)
    except (_TooLarge, RecursionError):
        return schema
    return schema if made == schema else made


def mends_in(schema: JSON, mends: Iterable[Mend]) -> list[Mend]:
    """The mends that change a schema, each by itself."""
    return [mend for mend in mends if mended(schema, [mend]) is not schema]


class _Mending:
    """Walks through one schema."""

    def __init__(self, root: JSON, mends: frozenset[Mend]) -> None:
        self._references = References(root)
        self._mends = mends
        self._left = MAX_NODES

    def of(self, schema: Any, within: tuple[Any, ...]) -> Any:
        """The form of a schema; `within` are the references that it stands in."""
        self._left -= 1
        if self._left < 0 or len(within) > MAX_DEPTH:
            raise _TooLarge
        if not isinstance(schema, dict):
            return {} if schema is True and "strict" in self._mends else schema
        if "refs" in self._mends and "$ref" in schema:
            return self._resolved(schema, within)
        made = {key: self._member(key, value, within) for key, value in schema.items()}
        if "refs" in self._mends:
            made = {key: each for key, each in made.items() if key not in {"$defs", "definitions"}}
        if "formats" in self._mends and made.get("format", "date-time") != "date-time":
            made = _described(made, f"format: {made['format']}", without="format")
        for step in ("items", "choices", "items"):  # of a list of types, and of what allOf becomes
            if step in self._mends:
                made = _with_items(made) if step == "items" else _with_plain_choices(made)
        return made

    def _member(self, key: str, value: Any, within: tuple[Any, ...]) -> Any:
        deeper = (*within, None)
        match key, value:
            case (("properties" | "patternProperties" | "$defs" | "definitions"), dict()):
                return {name: self.of(each, deeper) for name, each in value.items()}
            case (("anyOf" | "oneOf" | "allOf" | "prefixItems"), list()):
                return [self.of(each, deeper) for each in value]
            case "items", list():
                return [self.of(each, deeper) for each in value]
            case (("items" | "additionalProperties" | "not"), dict()):
                return self.of(value, deeper)
            case _:
                return value

    def _resolved(self, schema: JSON, within: tuple[Any, ...]) -> JSON:
        """The schema that a reference names, with the members beside it; any, if it names one around it."""
        beside = {key: each for key, each in schema.items() if key != "$ref"}
        try:
            path = self._references.path(schema["$ref"])
            named = {} if path in within else self._references.find(path)
        except Unresolvable:
            path, named = None, {}
        whole = {**(named if isinstance(named, dict) else {}), **beside}
        if "$ref" in whole and whole == schema:
            raise _TooLarge
        made: JSON = self.of(whole, (*within, path))
        return made


def _is_of(schema: JSON, kind: str) -> bool:
    named = schema.get("type")
    return named == kind or (isinstance(named, list) and kind in named)


def _described(schema: JSON, words: str, *, without: str = "") -> JSON:
    """The schema with a remark at the end of its description, in place of a keyword."""
    said = schema.get("description")
    text = f"{said} ({words})" if isinstance(said, str) and said else words
    return {key: each for key, each in schema.items() if key != without} | {"description": text}


def _with_items(schema: JSON) -> JSON:
    """An array with what is in it: one of what a tuple holds, or anything; any other schema as it is."""
    given = schema.get("items")
    if not _is_of(schema, "array") or isinstance(given, dict):
        return schema
    listed = given if isinstance(given, list) else schema.get("prefixItems")
    kinds = [each for each in listed or () if isinstance(each, dict)]
    items = {} if not kinds else kinds[0] if all(each == kinds[0] for each in kinds) else {"anyOf": kinds}
    rest = {key: each for key, each in schema.items() if key not in {"prefixItems", "additionalItems"}}
    return rest | {"items": items}


def _with_plain_choices(schema: JSON) -> JSON:
    """A schema that says its alternatives by anyOf and enum of texts alone."""
    if "oneOf" in schema:
        schema = {("anyOf" if key == "oneOf" else key): each for key, each in schema.items()}
    if isinstance(branches := schema.get("allOf"), list):
        schema = _merged({key: each for key, each in schema.items() if key != "allOf"}, branches)
    if "const" in schema:
        rest = {key: each for key, each in schema.items() if key != "const"}
        schema = rest | {"enum": [schema["const"]]}
    options = schema.get("enum")
    if isinstance(options, list) and not all(isinstance(each, str) for each in options):
        texts = [each for each in options if isinstance(each, str)]
        kinds = [*dict.fromkeys(map(written_type_of, options))]
        said = ", ".join(str(each) for each in options)
        schema = _described(schema, f"one of {cut(said, 300)}", without="enum")
        if "type" not in schema:
            schema |= {"type": kinds[0] if len(kinds) == 1 else kinds}
        if texts and kinds == ["string", "null"]:
            schema |= {"enum": texts}
    elif isinstance(options, list) and "type" not in schema:
        schema = schema | {"type": "string"}
    if isinstance(named := schema.get("type"), list):
        schema = _with_single_types(schema, named)
    return {key: each for key, each in schema.items() if key not in {"not", "if", "then", "else"}}


def _with_single_types(schema: JSON, named: list[Any]) -> JSON:
    if len(named) == 1:
        return schema | {"type": named[0]}
    outside = {"description", "title", "default"}
    inside = {key: each for key, each in schema.items() if key not in {*outside, "type", "anyOf"}}
    kinds = [
        {"type": each}
        | {key: said for key, said in inside.items() if _ONLY_OF.get(key, each) == each != "null"}
        for each in named
    ]
    return {key: each for key, each in schema.items() if key in outside} | {"anyOf": kinds}


def _merged(schema: JSON, branches: Iterable[Any]) -> JSON:
    """A schema with what all of the branches say, as far as one can say it."""
    for branch in branches:
        if not isinstance(branch, dict):
            continue
        properties = _both(schema.get("properties"), branch.get("properties"), _merged_pair)
        required = [*as_list(schema.get("required")), *as_list(branch.get("required"))]
        schema = branch | schema
        if properties:
            schema |= {"properties": properties}
        if required:
            schema |= {"required": list(dict.fromkeys(required))}
    return schema


def _merged_pair(one: Any, other: Any) -> Any:
    both = isinstance(one, dict) and isinstance(other, dict)
    return _merged(one, [other]) if both else one


def _either(one: Any, other: Any) -> Any:
    known = one["anyOf"] if isinstance(one, dict) and one.keys() == {"anyOf"} else [one]
    return one if other in known else {"anyOf": [*known, other]}


def _both(one: Any, other: Any, join: Any) -> JSON:
    first = one if isinstance(one, dict) else {}
    second = other if isinstance(other, dict) else {}
    shared = {name: join(first[name], each) for name, each in second.items() if name in first}
    return {**first, **{name: each for name, each in second.items() if name not in first}, **shared}


def _flat(schema: JSON) -> JSON:
    """A schema of one object, without alternatives at its top: what one of them has, may be given."""
    is_plain = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
    if is_plain and not any(key in schema for key in _AT_TOP):
        return schema
    flat: JSON = {"type": "object", **{key: each for key, each in schema.items() if key not in _AT_TOP}}
    flat["type"] = "object"
    for keyword in _MERGED:
        branches = [_flat(each) for each in as_list(schema.get(keyword)) if isinstance(each, dict)]
        if keyword == "allOf":
            flat = _merged(flat, branches)
            continue
        own = flat.get("properties")
        properties: JSON = {}
        for branch in branches:
            said = branch.get("properties")
            new = {name: each for name, each in (said or {}).items() if not _names(own, name)}
            properties = _both(properties, new, _either)
        needed = [{*as_list(branch.get("required"))} for branch in branches]
        always = set.intersection(*needed) if needed else set()
        if properties:
            flat["properties"] = {**(own or {}), **properties}
        if always:
            known = as_list(flat.get("required"))
            flat["required"] = [*known, *sorted(always - {*known})]
    if any(key in schema for key in (*_MERGED, "if")):
        flat.pop("additionalProperties", None)
    flat.setdefault("properties", {})
    return flat


def _names(properties: Any, name: str) -> bool:
    return isinstance(properties, dict) and name in properties


# --- the strict form


def _strict_top(schema: JSON) -> JSON:
    made = _strict_object(schema)
    if not made["properties"]:
        unused = {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Not used: null."}
        made |= {"properties": {NOTHING: unused}, "required": [NOTHING]}
    return made


def _strict_object(schema: JSON) -> JSON:
    properties = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
    required = {*as_list(schema.get("required"))}
    made = {
        name: _strict(each) if name in required else _nullable(_strict(each))
        for name, each in (properties or {}).items()
    }
    kept = {key: each for key, each in schema.items() if key in {"type", "description"}}
    return kept | {"properties": made, "required": list(made)}  # google-genai takes no additionalProperties


def _strict(schema: Any) -> JSON:
    """A schema of a value, which has a type."""
    if not isinstance(schema, dict):
        return {"type": "string", "description": _JSON_ANY}
    if "default" in schema:
        schema = _described(schema, f"default: {cut(str(schema['default']), 100)}", without="default")
    branches = [each for each in as_list(schema.get("anyOf")) if isinstance(each, dict)]
    if branches:
        kept = {key: each for key, each in schema.items() if key == "description"}
        inner = [_strict({**_without_alternatives(schema), **each}) for each in branches]
        return kept | {"anyOf": [each for at, each in enumerate(inner) if each not in inner[:at]]}
    kept = {key: each for key, each in schema.items() if key in _IN_STRICT and key != "anyOf"}
    match schema.get("type"):
        case "object" if schema.get("properties"):
            return _strict_object(schema)
        case "object":
            return _described({"type": "string", **_said(schema)}, _JSON_OBJECT)
        case "array":
            return kept | {"items": _strict(schema.get("items"))}
        case "string" | "number" | "integer" | "boolean" | "null":
            return kept
        case _:
            if schema.get("properties"):
                return _strict_object({"type": "object", **schema})
            return _described({"type": "string", **_said(schema)}, _JSON_ANY)


def _without_alternatives(schema: JSON) -> JSON:
    outside = {"anyOf", "description", "title", "default"}
    return {key: each for key, each in schema.items() if key not in outside}


def _said(schema: JSON) -> JSON:
    return {key: each for key, each in schema.items() if key == "description"}


def _nullable(schema: JSON) -> JSON:
    """A schema that takes null as well."""
    if schema.get("type") == "null":
        return schema
    if "anyOf" in schema:
        branches = schema["anyOf"]
        return schema if {"type": "null"} in branches else schema | {"anyOf": [*branches, {"type": "null"}]}
    said = _said(schema)
    inner = {key: each for key, each in schema.items() if key not in said}
    return said | {"anyOf": [inner, {"type": "null"}]}

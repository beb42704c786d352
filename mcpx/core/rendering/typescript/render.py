"""The walk from a JSON Schema to a TypeScript type and the named types that it needs.

Owns the limits. `render` is called by `SchemaConverter` alone. A schema is the
conjunction of its keywords: each gives a part (`$ref`, values, types, `anyOf`, `oneOf`, each of `allOf`), the
parts are intersected, and what no part says becomes the comment. A part that cannot be said raises
`Inexpressible`, and the nearest schema around it is shown as JSON.

Annotations and constraints, which a type cannot say, become a `Note`: a comment. A value of the wrong kind is
shown as it is: this is for reading, the validator does the checking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.rendering.typescript import keywords
from mcpx.core.rendering.typescript import types as ts
from mcpx.core.rendering.typescript.keywords import Inexpressible, array_type, object_type
from mcpx.core.rendering.typescript.literal import compact_json, key, literal, pattern, shortened
from mcpx.core.rendering.typescript.refs import Path, References, Unresolvable
from mcpx.core.rendering.typescript.types import Note, TSType
from mcpx.core.text import one_line

_SAFE_INTEGER: Final = 2**53 - 1  # generators write this bound for "any integer"
_MAX_WORD_CHARS: Final = 200  # of a format or a media type
_MIN_READ_CHARS: Final = 4096  # of a description
_FLAGS: Final = {
    "deprecated": "deprecated",
    "readOnly": "read-only",
    "writeOnly": "write-only",
    "nullable": "nullable",
}


class SchemaContext(msgspec.Struct, frozen=True):
    """The place of a schema. `name` is its property or definition; `required` whether it has to be there.

    `max_words` is the longest description, in characters. `said` is a description that the reader has seen
    already. At the root, the title is left out: it is the tool's name again.
    """

    max_words: int
    name: str = ""
    required: bool = False
    is_root: bool = False
    said: str | None = None


def note(schema: JSON, types: frozenset[str], context: SchemaContext) -> Note:
    """The comment of one schema. `types` are those it may have; empty means that they are not known here."""
    words = _words(schema, context)
    facts = [
        fact for family, give in _FAMILIES.items() if not types or family & types for fact in give(schema)
    ]
    return Note((words,) if words else (), ()).then(
        Note((), (*_general(schema), *facts, *_values(schema, context)))
    )


def _words(schema: JSON, context: SchemaContext) -> str:
    """Return the description, or else the title; empty if it repeats the name or `said`."""
    known = {_letters(context.name), _letters(context.said or "")}
    for word in ("description",) if context.is_root else ("description", "title"):
        said = schema.get(word)
        text = one_line(said[: max(_MIN_READ_CHARS, 8 * context.max_words)]) if isinstance(said, str) else ""
        if text and _letters(text) not in known:
            return shortened(text, context.max_words) if context.max_words else ""
    return ""


def _letters(text: str) -> str:
    """Keep letters and digits, to compare `repo_path` with `Repo Path`; without any, the text itself."""
    return re.sub(r"[\W_]", "", text).casefold() or text


def _general(schema: JSON) -> Iterator[str]:
    """Facts of any type, in words of their own."""
    yield from (word for flag, word in _FLAGS.items() if schema.get(flag) is True)
    if isinstance(form := schema.get("format"), str) and form:
        yield one_line(form, _MAX_WORD_CHARS)


def _values(schema: JSON, context: SchemaContext) -> Iterator[str]:
    """The default and the examples. A null default is what leaving an optional property out means anyway."""
    if "default" in schema and (schema["default"] is not None or context.required):
        yield f"default {literal(schema['default'])}"
    examples = schema.get("examples")
    if isinstance(examples, list) and examples and context.max_words:
        yield f"e.g. {shortened(', '.join(map(literal, examples)), context.max_words)}"
    elif "example" in schema and context.max_words:
        yield f"e.g. {shortened(literal(schema['example']), context.max_words)}"


def _numbers(schema: JSON) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if above is True:  # draft 4: a flag on the bound
        above, low = low, None
    if below is True:
        below, high = high, None
    low, high = (None if low == -_SAFE_INTEGER else low), (None if high == _SAFE_INTEGER else high)
    above, below = (edge if _given(edge) else None for edge in (above, below))
    if above is not None:
        yield f">{literal(above)}"
    yield from _range(low, high, "")
    if below is not None:
        yield f"<{literal(below)}"
    if "multipleOf" in schema:
        yield f"multiple of {literal(schema['multipleOf'])}"


def _strings(schema: JSON) -> Iterator[str]:
    yield from _range(schema.get("minLength"), schema.get("maxLength"), " chars")
    for word in ("contentEncoding", "contentMediaType"):
        if isinstance(text := schema.get(word), str) and text:
            yield one_line(text, _MAX_WORD_CHARS)
    if isinstance(text := schema.get("pattern"), str) and text:
        yield f"pattern {pattern(text)}"


def _arrays(schema: JSON) -> Iterator[str]:
    first = schema.get("prefixItems", schema.get("items"))
    low, high = schema.get("minItems"), schema.get("maxItems")
    if not (isinstance(first, list) and low == high == len(first)):  # else the tuple shows it
        yield from _range(low, high, " items")
    if schema.get("uniqueItems") is True:
        yield "unique"


def _objects(schema: JSON) -> Iterator[str]:
    yield from _range(schema.get("minProperties"), schema.get("maxProperties"), " keys")
    for word in ("dependentRequired", "dependencies"):
        wanted = schema.get(word)
        for name, needs in wanted.items() if isinstance(wanted, dict) else ():
            if isinstance(needs, list) and needs:
                yield f"{key(name)} needs {'+'.join(_name(need) for need in needs)}"


def alternatives(word: str, names: list[list[Any]]) -> str:
    """`at least one of: a | b+c`, for an anyOf or oneOf of nothing but `required` lists."""
    head = "exactly one of" if word == "oneOf" else "at least one of"
    return f"{head}: {' | '.join('+'.join(map(_name, group)) for group in names)}"


def _name(name: Any) -> str:
    return key(name) if isinstance(name, str) else literal(name)


def _given(edge: Any) -> bool:
    return edge is not None and not isinstance(edge, bool)


def _range(low: Any, high: Any, unit: str) -> Iterator[str]:
    """`1..5 items`, `>=1 items`, `<=5 items`, `5 items`; a count of at least 0 says nothing."""
    low = None if unit and low == 0 else low
    if _given(low) and _given(high):
        exact = unit and low == high
        yield f"{literal(low)}{unit}" if exact else f"{literal(low)}..{literal(high)}{unit}"
    elif _given(low):
        yield f">={literal(low)}{unit}"
    elif _given(high):
        yield f"<={literal(high)}{unit}"


_FAMILIES: Final = {
    frozenset({"integer", "number"}): _numbers,
    frozenset({"string"}): _strings,
    frozenset({"array"}): _arrays,
    frozenset({"object"}): _objects,
}


_MAX_DEPTH: Final = 64  # schemas inside schemas; Python's stack takes several times as much
_MAX_SCHEMAS: Final = 1_000  # visited in one conversion, at 50 us each; real tools have below a hundred
_SHORT: Final = 32  # characters of a type that is repeated in place rather than named
_UNIONS: Final = ("anyOf", "oneOf")


class RootOnlyError(Exception):
    """Only the whole schema's JSON would be true: a part shown alone would miss what it refers to."""


def render(schema: Any, max_words: int, tool_description: str | None) -> str:
    """Return the type of a schema, and ` where Name = type; ...` if it needs names.

    Raises:
        RootOnlyError: The schema has to be shown whole, as JSON.
    """
    walk = _Walk(schema, max_words)
    text = walk.type_of(
        schema, SchemaContext(max_words, is_root=True, said=tool_description), depth=0
    ).written()
    if () in walk.recursive:
        text = walk.define((), text)
    named = "; ".join(f"{name} = {text}" for name, text in walk.definitions.items())
    return f"{text} where {named}" if named else text


class _Walk:
    """One conversion. `definitions` are the named types so far; `recursive` references have to be names."""

    def __init__(self, root: Any, max_words: int) -> None:
        self.definitions: dict[str, str] = {}
        self.recursive: set[Path] = set()
        self._max_words = max_words
        self._refs = References(root)
        self._open: set[Path] = {()}
        self._done: dict[Path, TSType] = {}
        self._visited = 0

    def define(self, path: Path, text: str) -> str:
        """Give the type at `path` its name, and return that."""
        name = self._refs.name(path)
        if text == name:  # a reference to nothing but itself
            raise RootOnlyError
        self.definitions[name] = text
        return name

    def type_of(self, schema: Any, context: SchemaContext, depth: int) -> TSType:
        """The type of one schema, with its comment pending."""
        if isinstance(schema, bool):
            return ts.UNKNOWN if schema else ts.NEVER
        self._visited += 1
        if self._visited > _MAX_SCHEMAS:
            raise RootOnlyError
        try:
            if not isinstance(schema, dict) or depth > _MAX_DEPTH:
                raise Inexpressible  # noqa: TRY301 - one way out for all that is shown as JSON
            return self._typed(schema, context, depth)
        except (Inexpressible, Unresolvable):
            return self._json(schema, depth)

    def _json(self, schema: Any, depth: int) -> TSType:
        if depth and self._refs.needed_by(schema):
            raise RootOnlyError
        return TSType(compact_json(schema))

    def _typed(self, schema: JSON, context: SchemaContext, depth: int) -> TSType:
        if "not" in schema and schema["not"] in ({}, True):
            return ts.NEVER.with_note(note(schema, frozenset(), context))
        keywords.refuse_inexpressible(schema)
        if self._refs.rebased_in(schema):
            raise Inexpressible
        types = keywords.stated_types(schema)
        parts = list(self._parts(schema, types, context, depth))
        own = types if parts else types or keywords.inferred_types(schema)
        allowed = keywords.admitted(types)
        implied = any(part.kinds and part.kinds <= allowed for part in parts)
        shaped = tuple(kind for kind in keywords.shaped_types(schema) if not types or kind in types)
        if shaped or not (parts and (implied or not types)):
            parts.insert(0, self._own(schema, own or shaped, context, depth))
        facts = Note((), tuple(_required_alternatives(schema)))
        return ts.intersection(parts).with_note(note(schema, frozenset(own), context).then(facts))

    def _own(self, schema: JSON, types: tuple[str, ...], context: SchemaContext, depth: int) -> TSType:
        """Return what `type` and the keywords for members and items say; `unknown` without any."""

        def child(inner: Any, name: str = "", *, required: bool = False) -> TSType:
            return self.type_of(inner, SchemaContext(context.max_words, name, required), depth + 1)

        walkers = {"object": object_type, "array": array_type}
        shapes = [walkers[t](schema, child) if t in walkers else ts.named(t, t) for t in types]
        return ts.union(shapes) if shapes else ts.UNKNOWN

    def _parts(
        self, schema: JSON, types: tuple[str, ...], context: SchemaContext, depth: int
    ) -> Iterator[TSType]:
        """Yield a type for each keyword for references, values and combinations."""
        inner = SchemaContext(context.max_words, context.name)
        if "$ref" in schema:
            yield self._reference(schema["$ref"], depth)
        values = keywords.values(schema, types)
        if values is not None:
            yield ts.union(ts.named(literal(value), keywords.type_of(value)) for value in values)
        for word in _UNIONS:
            if word in schema and keywords.required_names(schema, word) is None:
                given = (keywords.for_branch(schema, types, branch) for branch in schema[word])
                yield ts.union([self.type_of(branch, inner, depth + 1) for branch in given])
        for branch in schema.get("allOf", ()):
            yield self.type_of(keywords.for_branch(schema, types, branch), inner, depth + 1)

    def _reference(self, ref: Any, depth: int) -> TSType:
        """Return the type a `$ref` leads to, in place or by name.

        Raises:
            Unresolvable: It leads nowhere in this schema.
        """
        path = self._refs.path(ref)
        target = self._refs.find(path)
        if path in self._open:
            self.recursive.add(path)
            kinds = keywords.stated_types(target) if isinstance(target, dict) else ()
            return ts.named(self._refs.name(path), *kinds)
        if path not in self._done:
            self._done[path] = self._resolved(path, target, depth)
        return self._done[path]

    def _resolved(self, path: Path, target: Any, depth: int) -> TSType:
        self._open.add(path)
        found = self.type_of(target, SchemaContext(self._max_words, path[-1]), depth + 1)
        self._open.remove(path)
        text = found.written()
        if path in self.recursive or not (self._refs.used_once(path) or len(text) <= _SHORT):
            return ts.named(self.define(path, text), *found.kinds)
        return found


def _required_alternatives(schema: JSON) -> Iterator[str]:
    for word in _UNIONS:
        if (names := keywords.required_names(schema, word)) is not None:
            yield alternatives(word, names)

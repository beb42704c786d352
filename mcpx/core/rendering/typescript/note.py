"""Annotations and constraints of one schema as a `Note`: what its type cannot say.

Pure; called by the walker once a schema. Knows the keywords and the family of types each one applies to. A
value of the wrong kind is shown as it is: this is for reading, the validator does the checking.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.rendering.typescript.literal import key, literal, pattern, shortened
from mcpx.core.rendering.typescript.types import Note
from mcpx.core.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Where a schema stands. `name` is its property or definition; `required` whether it has to be there.

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

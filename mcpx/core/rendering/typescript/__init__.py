"""JSON Schema as a TypeScript type on one line: what a tool takes, in a third of the tokens.

Owns the notation. Called wherever a schema is shown to a model: `inspect`, the catalogue, argument errors.
Promises: any JSON goes in and one line comes out; nothing raises, nothing loops, nothing is fetched.

The notation is TypeScript's, with these additions, all on one line:

* `integer` beside `number`; string literals and awkward names in single quotes.
* `/* description; 1..100, default 10 */` behind a type: its description, then what the type cannot say.
  Bare words there are formats, `>0` and `1..5 items` bounds, `pattern` comes last and runs to the end.
* `<type> where Node = {kids?: Node[]}; Leaf = string`: named types, for a `$ref` that is recursive, or used
  more than once and long. Any other `$ref` is written in place.
* Double quotes mean JSON: a subschema that has no TypeScript form (`not`, `if`, `contains`, a remote `$ref`,
  an unknown `type`, nesting beyond reason) stands as its compact JSON Schema. Where that would tear a
  local `$ref` from its target, the whole schema does; so does one with more than a thousand schemas in it, or
  of more than `MAX_CONVERTED_CHARS` characters. One of more than two megabytes is named and not shown.

`unknown` is written only where the schema accepts anything: `{}`, `true`, an array without `items`, a name
that is required but has no schema. What JSON Schema leaves open by default (more properties, tuples longer or
shorter) is not spelled out; `additionalProperties: true` beside properties is. Left out, because it says
nothing: a title or description that repeats the name, a title beside a description, the root's title, a null
default of an optional property, the bounds of safe integers.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from mcpx.core.rendering.typescript.literal import comment, compact_json, key, outweighs
from mcpx.core.rendering.typescript.render import RootOnlyError, render
from mcpx.core.text import encodable

__all__ = ["MAX_CONVERTED_CHARS", "SchemaConverter", "outweighs", "too_large"]

MAX_CONVERTED_CHARS: Final = 131_072  # of JSON Schema; real ones have a few thousand
_MAX_SHOWN_CHARS: Final = 2_097_152  # characters of JSON Schema that are shown at all
_MAX_NAMES_SHOWN: Final = 50
_NAMES_LEN: Final = 4000


def too_large(schema: Any) -> str:
    """Name the properties of a schema that is too large to be shown."""
    named = schema.get("properties") if isinstance(schema, dict) else None
    known = (
        ", ".join(key(name) for name in islice(named, _MAX_NAMES_SHOWN)) if isinstance(named, dict) else ""
    )
    text = "the schema is too large to be shown"
    if 0 < len(known) <= _NAMES_LEN:
        text += f"; its properties: {known}" + (", ..." if len(named or ()) > _MAX_NAMES_SHOWN else "")
    return encodable(f"object {comment(text)}")


class SchemaConverter:
    """JSON Schema to TypeScript; it holds no state, so the class serves as well as an instance."""

    @staticmethod
    def convert(schema: Any, *, max_description_len: int = 300, tool_description: str | None = None) -> str:
        """Return the schema (any JSON value, of any draft) as one line of TypeScript. Never raises.

        Each description is cut at `max_description_len` characters with `...`; 0 leaves descriptions out.
        The root's own description stands behind the type, unless it repeats `tool_description`.
        """
        if outweighs(schema, _MAX_SHOWN_CHARS):
            return too_large(schema)
        try:
            if outweighs(schema, MAX_CONVERTED_CHARS):
                raise RootOnlyError  # noqa: TRY301 - one way out for all that is shown as JSON
            text = render(schema, max(0, max_description_len), tool_description)
        except (RootOnlyError, RecursionError):  # the second: defaults nested too deep, or a deep caller
            text = compact_json(schema)
        return encodable(text)

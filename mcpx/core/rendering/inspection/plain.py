"""Tools for programs: plain JSON with the original schemas, bounded in bytes. Pure.

Names and schemas are what a program needs, exactly as the server gave them; only titles and descriptions are
made clean (`mcpx.core.text`). What a server adds to a tool (`_meta`, icons, `execution`, members of its own)
is shown as long as there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.rendering.inspection.listing import first_fitting, shortened
from mcpx.core.rendering.typescript import outweighs
from mcpx.core.text import is_clean, paragraphs

PROGRAM_BYTES: Final = 1_000_000
MAX_SCHEMA_CHARS: Final = 524_288  # characters of one schema
MAX_TEXT_CHARS: Final = 65_536  # characters of one description, whole
_BRIEF_LEN: Final = 100
_TOO_LARGE: Final = "too large to be shown"
_ESCAPED_CONTROL: Final = "\\u00"  # as JSON has it
_MIN_PLAIN_BYTES: Final = 50  # bytes of a tool as plain JSON
_MIN_BRIEF_BYTES: Final = 30
_MAX_CLEANED_DEPTH: Final = 64  # levels of a schema in which descriptions are cleaned
_SCHEMAS: Final = ("input_schema", "output_schema", "annotations")
_ESSENTIAL: Final = frozenset({"name", "title", "description", *_SCHEMAS})
_OWN_NAMES: Final = frozenset(
    {
        "server",
        "state",
        "retry_in_s",
        "unchecked",
        "shortened",
        "changed",
        "changes",
        "changed_by_configuration",
    }
)
"""What inspect says of a tool under names of its own: a server cannot."""

Form = Callable[[ToolInfo], JSON]


def plain_listing(tools: Sequence[ToolInfo]) -> JSON:
    """`{tools}` whole, else without additions, else names with the beginnings of descriptions, else names.

    What is not shown whole has `tools_total`, `shortened` and `not_shown` beside it, as for the model.
    """
    ladder: tuple[tuple[Form, int], ...] = (
        (clean_plain, _MIN_PLAIN_BYTES),
        (_essential_plain, _MIN_PLAIN_BYTES),
        (_brief_plain, _MIN_BRIEF_BYTES),
    )
    for form, least in ladder:
        entries = _weighed(tools, form) if least * len(tools) <= PROGRAM_BYTES else None
        if entries is not None:
            return {"tools": entries} if form is clean_plain else shortened(tools, entries)
    sized = (({"name": tool.name}, len(tool.name) + len('{"name":""},')) for tool in tools)
    return shortened(tools, first_fitting(sized, PROGRAM_BYTES))


def _weighed(tools: Sequence[ToolInfo], form: Form) -> list[JSON] | None:
    """All tools in that form; None where they are over the bytes for programs."""
    room = PROGRAM_BYTES
    entries = []
    for tool in tools:
        entry = form(tool)
        room -= len(msgspec.json.encode(entry))
        if room < 0:
            return None
        entries.append(entry)
    return entries


def clean_plain(tool: ToolInfo) -> JSON:
    """A tool whole as plain JSON. The name is as the server gave it; descriptions are clean."""
    plain = _essential_plain(tool)
    added = {name: value for name, value in tool.to_dict().items() if name not in _ESSENTIAL | _OWN_NAMES}
    return plain | (added if not outweighs(added, MAX_SCHEMA_CHARS) else {"$comment": _TOO_LARGE})


def _essential_plain(tool: ToolInfo) -> JSON:
    """The same without what it takes neither to choose the tool nor to call it."""
    plain = {name: value for name, value in tool.to_dict().items() if name in _ESSENTIAL}
    for field in _SCHEMAS:
        if field in plain and outweighs(plain[field], MAX_SCHEMA_CHARS):
            plain[field] = {"$comment": _TOO_LARGE}
    for field in ("title", "description"):
        if field in plain:
            plain[field] = paragraphs(plain[field][:MAX_TEXT_CHARS])
    texts = {field: value for field, value in plain.items() if isinstance(value, dict)}
    encoded = msgspec.json.encode(texts).decode()
    if is_clean(encoded) and _ESCAPED_CONTROL not in encoded:
        return plain
    return plain | {field: _cleaned(value) for field, value in texts.items()}


def _cleaned(value: Any, depth: int = 0) -> Any:
    """A schema with clean titles and descriptions; all that has a meaning to a validator is as it was."""
    if depth > _MAX_CLEANED_DEPTH:
        return value
    if isinstance(value, list):
        return [_cleaned(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: paragraphs(inner)
        if name in {"title", "description", "$comment"} and isinstance(inner, str)
        else _cleaned(inner, depth + 1)
        for name, inner in value.items()
    }


def _brief_plain(tool: ToolInfo) -> JSON:
    return {"name": tool.name, "description": paragraphs((tool.description or "")[:_BRIEF_LEN])}

"""The tools of one server, as fully as fits one answer of inspect: pure.

For the model there is a budget of tokens, for programs one of bytes. All tools are shown alike: whole, else
as `name(parameters)` with the first sentence of the description, else as `name(parameters)`, else by name;
and where not even the names fit, the first of them and a count. Each way is given up as soon as it is over
the budget, so that no more is rendered than one answer can hold, however much a server lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from mcpx.catalog.model import JSON, ToolInfo
from mcpx.rendering.signatures import line_parts, signature
from mcpx.rendering.tokens import estimate
from mcpx.rendering.typescript import outweighs
from mcpx.text import is_clean, paragraphs, shown_name

MODEL_TOKENS: Final = 16_000  # hosts cut a result at 25,000, or refuse it
PROGRAM_BYTES: Final = 1_000_000
MAX_SCHEMA_CHARS: Final = 524_288  # characters of one schema for programs
MAX_TEXT_CHARS: Final = 65_536  # characters of one description, whole
_SUMMARY_LEN: Final = 100
_ESCAPED_CONTROL: Final = "\\u00"  # as JSON has it
_MIN_WHOLE_TOKENS: Final = 12  # tokens of a tool that is shown whole, with the names of its fields
_MIN_LINE_TOKENS: Final = 4
_MIN_NAME_TOKENS: Final = 2
_MIN_PLAIN_BYTES: Final = 50  # bytes of a tool as plain JSON
_MIN_BRIEF_BYTES: Final = 30
_MAX_CLEANED_DEPTH: Final = 64  # levels of a schema in which descriptions are cleaned
_HINT: Final = (
    "Shortened to fit: inspect(server_name, tool_name) shows one tool whole;"
    " with part of a name it finds the nearest."
)

Listed = Callable[[ToolInfo], tuple[Any, int]]
"""A tool in some form, and what that costs in tokens, at least."""


def fitting_for_model(tools: Sequence[ToolInfo], listed: Listed) -> JSON:
    """`{tools}`, or `{tools_total, shortened, tools, not_shown?}` where they are not shown whole."""
    whole = _within(tools, _MIN_WHOLE_TOKENS, listed)
    if whole is not None:
        return {"tools": whole}
    forms: tuple[tuple[int, Listed], ...] = (
        (_MIN_LINE_TOKENS, _line),
        (_MIN_LINE_TOKENS - 1, _signature),
        (_MIN_NAME_TOKENS, _name),
    )
    for least, form in forms:
        entries = _within(tools, least, form)
        if entries is not None:
            return _shortened(tools, entries)
    return _shortened(tools, _first((_name(tool) for tool in tools), MODEL_TOKENS))


def fitting_for_programs(tools: Sequence[ToolInfo]) -> JSON:
    """The same for programs: plain JSON with the original schemas, else names with titles, else names."""
    for form, least in ((clean_plain, _MIN_PLAIN_BYTES), (_brief_plain, _MIN_BRIEF_BYTES)):
        entries = _weighed(tools, form) if least * len(tools) <= PROGRAM_BYTES else None
        if entries is not None:
            return {"tools": entries} if form is clean_plain else _shortened(tools, entries)
    sized = (({"name": tool.name}, len(tool.name) + len('{"name":""},')) for tool in tools)
    return _shortened(tools, _first(sized, PROGRAM_BYTES))


def _weighed(tools: Sequence[ToolInfo], form: Callable[[ToolInfo], JSON]) -> list[JSON] | None:
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
    plain = tool.to_dict()
    for field in ("input_schema", "output_schema", "annotations"):
        if field in plain and outweighs(plain[field], MAX_SCHEMA_CHARS):
            plain[field] = {"$comment": "too large to be shown"}
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


def _within(tools: Sequence[ToolInfo], least: int, form: Listed) -> list[Any] | None:
    """All tools in that form; None where they are over the budget."""
    if least * len(tools) > MODEL_TOKENS:
        return None
    room = MODEL_TOKENS
    entries: list[Any] = []
    for tool in tools:
        entry, cost = form(tool)
        room -= max(cost, least)
        if room < 0:
            return None
        entries.append(entry)
    return entries


def _first(sized: Iterable[tuple[Any, int]], room: int) -> list[Any]:
    """As many of the first entries as there is room for."""
    entries: list[Any] = []
    for entry, cost in sized:
        if room < _MIN_NAME_TOKENS:
            break
        if cost <= room:  # one monstrous name must not hide those behind it
            room -= cost
            entries.append(entry)
    return entries


def _shortened(tools: Sequence[ToolInfo], entries: list[Any]) -> JSON:
    left = len(tools) - len(entries)
    shown: JSON = {"tools_total": len(tools), "shortened": _HINT, "tools": entries}
    return shown | {"not_shown": left} if left else shown


def _line(tool: ToolInfo) -> tuple[JSON, int]:
    shown, summary = line_parts(tool, _SUMMARY_LEN)
    return {"tool": shown, "summary": summary}, estimate(shown) + estimate(summary) + 1


def _signature(tool: ToolInfo) -> tuple[str, int]:
    shown = signature(tool)
    return shown, estimate(shown) + 1


def _name(tool: ToolInfo) -> tuple[str, int]:
    shown = shown_name(tool.name)
    return shown, estimate(shown) + 1


def _brief_plain(tool: ToolInfo) -> JSON:
    return {"name": tool.name, "description": paragraphs((tool.description or "")[:_SUMMARY_LEN])}

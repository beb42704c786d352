"""The tools of one server, as fully as fits one answer of inspect. Pure.

All tools are shown alike: whole, else with a sentence and the bare type of what they take, else as typed
signatures with a sentence, as signatures with types, without, by name; and where not even the names fit, the
first of them and a count. Each form is given up as soon as it is over the budget, so that no more is rendered
than one answer can hold, however much a server lists.

Programs get plain JSON with the original schemas, bounded in bytes: names and schemas exactly as the server
gave them, titles and descriptions made clean (`mcpx.core.text`). What a server adds to a tool (`_meta`,
icons, `execution`, members of its own) is shown as long as there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.rendering.inspection.forms import MIN_WHOLE_TOKENS, ToolForms, fits
from mcpx.core.rendering.signatures import line_parts, signature
from mcpx.core.rendering.tokens import estimate
from mcpx.core.rendering.typescript import outweighs
from mcpx.core.text import is_clean, paragraphs, shown_name

LISTING_TOKENS: Final = 4_000  # of one answer; a whole session of a model takes about as much
_SUMMARY_LEN: Final = 100
_MIN_LINE_TOKENS: Final = 4
_MIN_NAME_TOKENS: Final = 2
_HINT: Final = (
    "Shortened to fit: inspect(server_name, tool_name) shows one tool whole, or several;"
    " inspect(server_name, query) finds some."
)

Form = Callable[[ToolInfo], tuple[Any, int]]
"""A tool in some form, and what that costs in tokens, at least."""


def tools_listing(
    tools: Sequence[ToolInfo], forms: ToolForms, *, room: int, render: Callable[[JSON], str]
) -> JSON:
    """`{tools}`, or `{tools_total, shortened, tools, not_shown?}` where they are not shown whole.

    `room` is the budget in tokens of what `render` makes of it.
    """
    ladder: tuple[tuple[int, Form], ...] = (
        (MIN_WHOLE_TOKENS, forms.listed),
        (MIN_WHOLE_TOKENS, forms.brief),
        (_MIN_LINE_TOKENS, _line),
        (_MIN_LINE_TOKENS, _typed),
        (_MIN_LINE_TOKENS - 1, _untyped),
        (_MIN_NAME_TOKENS, _name),
    )
    for least, form in ladder:
        entries = _within(tools, least, form, room)
        if entries is not None:
            shown = {"tools": entries} if form == forms.listed else shortened(tools, entries)
            if fits(render(shown), room):
                return shown
    return shortened(tools, first_fitting(map(_name, tools), room - estimate(_HINT)))


def _within(tools: Sequence[ToolInfo], least: int, form: Form, room: int) -> list[Any] | None:
    """All tools in that form; None where they are over the budget."""
    if least * len(tools) > room:
        return None
    entries: list[Any] = []
    for tool in tools:
        entry, cost = form(tool)
        room -= max(cost, least)
        if room < 0:
            return None
        entries.append(entry)
    return entries


def first_fitting(sized: Iterable[tuple[Any, int]], room: int) -> list[Any]:
    """Return as many of the first entries as there is room for."""
    entries: list[Any] = []
    for entry, cost in sized:
        if room < _MIN_NAME_TOKENS:
            break
        if cost <= room:  # one monstrous name must not hide those behind it
            room -= cost
            entries.append(entry)
    return entries


def shortened(tools: Sequence[ToolInfo], entries: list[Any]) -> JSON:
    """The entries, with the number of tools, and of those that are not among them."""
    left = len(tools) - len(entries)
    shown: JSON = {"tools_total": len(tools), "shortened": _HINT, "tools": entries}
    return shown | {"not_shown": left} if left else shown


def _line(tool: ToolInfo) -> tuple[JSON, int]:
    shown, summary = line_parts(tool, _SUMMARY_LEN, typed=True)
    return {"tool": shown, "summary": summary}, estimate(shown) + estimate(summary) + 1


def _typed(tool: ToolInfo) -> tuple[str, int]:
    shown = signature(tool, typed=True)
    return shown, estimate(shown) + 1


def _untyped(tool: ToolInfo) -> tuple[str, int]:
    shown = signature(tool)
    return shown, estimate(shown) + 1


def _name(tool: ToolInfo) -> tuple[str, int]:
    shown = shown_name(tool.name)
    return shown, estimate(shown) + 1


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

PlainForm = Callable[[ToolInfo], JSON]


def plain_listing(tools: Sequence[ToolInfo]) -> JSON:
    """`{tools}` whole, else without additions, else names with the beginnings of descriptions, else names.

    What is not shown whole has `tools_total`, `shortened` and `not_shown` beside it, as for the model.
    """
    ladder: tuple[tuple[PlainForm, int], ...] = (
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


def _weighed(tools: Sequence[ToolInfo], form: PlainForm) -> list[JSON] | None:
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

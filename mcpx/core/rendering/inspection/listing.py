"""The tools of one server, as fully as fits one answer of inspect. Pure.

All tools are shown alike: whole, else with a sentence and the bare type of what they take, else as typed
signatures with a sentence, as signatures with types, without, by name; and where not even the names fit, the
first of them and a count. Each form is given up as soon as it is over the budget, so that no more is rendered
than one answer can hold, however much a server lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.rendering.inspection.forms import MIN_WHOLE_TOKENS, ToolForms, fits
from mcpx.core.rendering.signatures import line_parts, signature
from mcpx.core.rendering.tokens import estimate
from mcpx.core.text import shown_name

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

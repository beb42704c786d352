"""Edits of JSON with comments by text spans: one value changes, every other character stays.

Called by `mcpx.setup.documents.editing`, which checks the outcome. Text in, text out. What is added looks
like what stands beside it: its indentation, its line ends, one line or several, a trailing comma or none.
With a member that is removed go its comma, its line if that held nothing else, and a comment on that line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from mcpx.core.text.jsonc import (
    LINE_END,
    JSONCError,
    Node,
    line_and_column,
    line_start,
    loads,
    next_token,
    parse,
)
from mcpx.setup.documents import DocumentError, begins_line, line_end_of, nested

_REST_OF_LINE: Final = re.compile(r"(?:[ \t]++|/\*[^\r\n]*?\*/)*+(?://[^\r\n]*+)?(?=\r|\n|\Z)")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"')
_INDENT: Final = re.compile(r"[ \t]*")
_MAX_LOOKED_AT: Final = 1000  # values, to see how a file is written
_ONE_LINE_WIDTH: Final = 100
"""Characters of a list that is written on one line, in a file whose lists are."""


class _Style(msgspec.Struct, frozen=True):
    """The style of a file: one step of indentation, its line end, what is between key and value."""

    step: str
    line_end: str
    colon: str
    comma: str
    long_lists: bool
    """Lists have an item a line, as programs write them."""


def read(text: str) -> Any:
    """The value of a text."""
    try:
        return loads(text)
    except JSONCError as error:
        raise _error(text, error.offset, error.problem) from None


def set_value(text: str, path: Sequence[str | int], value: Any) -> str:
    """The text with the value at a path replaced, or added with the objects above it."""
    root = _parse(text)
    style = _style(text, root)
    node, rest = _deepest(text, root, path)
    if not rest or node.value is None:
        base, spread = _indent(text, node.start), node is root or _own_line_above(text, root, node)
        return (
            text[: node.start] + _written(nested(rest, value), style, base, spread=spread) + text[node.end :]
        )
    if not isinstance(rest[0], str):
        raise _error(text, node.start, f"there is no item {rest[0]} here")
    return _insert(text, root, node, rest[0], nested(rest[1:], value))


def append_item(text: str, path: Sequence[str | int], value: Any) -> str:
    """The text with one more item at the end of the list at a path, which is made if there is none."""
    root = _parse(text)
    node = root.find(path)
    if node is None or node.value is None:
        return set_value(text, path, [value])
    if not isinstance(node.value, list):
        raise _error(text, node.start, "this is not a list")
    return _insert(text, root, node, None, value)


def remove_value(text: str, path: Sequence[str | int]) -> str:
    """The text without the member or item at a path; a key that is given twice goes twice."""
    root = _parse(text)
    while (node := root.find(path)) and (parent := root.find(path[:-1])):
        spans = _spans(parent)
        index = next(i for i, (_, end) in enumerate(spans) if end == node.end)
        text = _without(text, parent, spans, index)
        if path[-1] not in getattr(parent.value, "repeated", ()):
            break
        root = _parse(text)
    return text


def rename_key(text: str, path: Sequence[str | int], key: str) -> str:
    """The text with another key for the member at a path; a key that is given twice is renamed twice."""
    parent = _parse(text).find(path[:-1])
    for member in reversed(parent.members if parent else ()):
        if member.key == path[-1] and (found := _STRING.match(text, member.key_start)):
            text = text[: found.start()] + _dumps(key) + text[found.end() :]
    return text


def _parse(text: str) -> Node:
    try:
        return parse(text)
    except JSONCError as error:
        raise _error(text, error.offset, error.problem) from None


def _error(text: str, offset: int, problem: str) -> DocumentError:
    return DocumentError(problem, *line_and_column(text, offset))


def _deepest(text: str, root: Node, path: Sequence[str | int]) -> tuple[Node, Sequence[str | int]]:
    """The deepest node of a path that is there, and the steps that are not."""
    node = root
    for index, step in enumerate(path):
        found = node.find([step])
        if found is None:
            if node.value is not None and not isinstance(node.value, dict if isinstance(step, str) else list):
                raise _error(
                    text, node.start, f"expected {'an object' if isinstance(step, str) else 'a list'}"
                )
            return node, path[index:]
        node = found
    return node, ()


def _spans(node: Node) -> list[tuple[int, int]]:
    """From where to where each member or item stands, without its comma."""
    members = [(each.key_start, each.node.end) for each in node.members]
    return members or [(each.start, each.end) for each in node.items]


def _insert(text: str, root: Node, node: Node, key: str | None, value: Any) -> str:
    """The text with one more member (with a key) or item at the end of an object or a list."""
    style, spans = _style(text, root), _spans(node)
    name = "" if key is None else _dumps(key) + style.colon
    if not spans:
        return _insert_first(text, root, node, name, value)
    start, end = spans[-1]
    comma = next_token(text, end)
    trailing = text.startswith(",", comma)
    rest = _REST_OF_LINE.match(text, comma + 1 if trailing else end)
    indent = _indent(text, start)
    if not _begins_line(text, start) or not rest:
        return text[:end] + style.comma + name + _written(value, style, indent, spread=False) + text[end:]
    line = style.line_end + indent + name + _written(value, style, indent, spread=True)
    before = text[:end] + ("" if trailing else ",") + text[end : rest.end()]
    return before + line + ("," if trailing else "") + text[rest.end() :]


def _insert_first(text: str, root: Node, node: Node, name: str, value: Any) -> str:
    """The text with a first member or item in an object or a list that is empty, but for comments."""
    style = _style(text, root)
    inside = text[node.start + 1 : node.end - 1]
    base = _indent(text, node.start)
    indent = base + style.step
    spread = node is root or "\n" in inside or _own_line_above(text, root, node)
    written = name + _written(value, style, indent if spread else base, spread=spread)
    kept = inside.rstrip(" \t\r\n")
    behind = inside[len(kept) :] if kept else ""
    if spread:
        behind = behind if "\n" in behind else style.line_end + base
        return (
            f"{text[: node.start + 1]}{kept}{style.line_end}{indent}{written}{behind}{text[node.end - 1 :]}"
        )
    return f"{text[: node.start + 1]}{kept}{written}{behind}{text[node.end - 1 :]}"


def _without(text: str, parent: Node, spans: list[tuple[int, int]], index: int) -> str:
    """The text without one member or item."""
    start, end = spans[index]
    comma = next_token(text, end)
    cuts = []
    if text.startswith(",", comma):
        together = not text[end:comma].strip(" \t")
        cuts = [] if together else [(comma, comma + 1)]
        end = comma + 1 if together else end
    elif index:
        before = next_token(text, spans[index - 1][1])
        together = not text[before + 1 : start].strip(" \t")
        cuts = [] if together else [(before, before + 1)]
        start = before if together else start
    rest = _REST_OF_LINE.match(text, end)
    if _begins_line(text, start) and rest:
        line_end = LINE_END.match(text, rest.end())
        cuts.append((line_start(text, start), line_end.end() if line_end else rest.end()))
    elif index < len(spans) - 1:
        blanks = _INDENT.match(text, end)
        cuts.append((start, blanks.end() if blanks else end))
    else:
        cuts.append((len(text[:start].rstrip(" \t")), end))
    opening, closing = parent.start + 1, parent.end - 1
    for first, last in sorted(cuts, reverse=True):
        text = text[:first] + text[last:]
        closing -= last - first
    return text if text[opening:closing].strip() else text[:opening] + text[closing:]


def _indent(text: str, offset: int) -> str:
    """The blanks at the start of the line of an offset."""
    found = _INDENT.match(text, line_start(text, offset))
    return found[0] if found else ""


def _begins_line(text: str, offset: int) -> bool:
    """Return True if an offset is the first on its line, and that is not the first of the file."""
    return begins_line(text, offset) and line_start(text, offset) > 0


def _own_line_above(text: str, root: Node, node: Node) -> bool:
    """Return True if the file around a node is written over several lines."""
    return any(_begins_line(text, start) for start, end in _spans_around(root, node))


def _spans_around(root: Node, node: Node) -> list[tuple[int, int]]:
    """The spans of the members and items that a node stands in, outermost first."""
    found = [(start, end) for start, end in _spans(root) if start <= node.start and node.end <= end]
    children = [each.node for each in root.members] or list(root.items)
    return found + [
        span
        for child in children
        if child is not node and child.start <= node.start and node.end <= child.end
        for span in _spans_around(child, node)
    ]


def _style(text: str, root: Node) -> _Style:
    """Return the style of a file, by its first member or item that begins a line."""
    step, long_lists = _layout(text, root)
    member = next(iter(root.members), None)
    colon = ": " if member is None or text[member.node.start - 1] in " \t\r\n/" else ":"
    return _Style(step or "  ", line_end_of(text), colon, ", " if colon == ": " else ",", long_lists)


def _layout(text: str, root: Node) -> tuple[str, bool]:
    """One step of indentation (empty if none is seen), and whether lists of values have an item a line."""
    step, long_lists = "", False
    nodes = [root]
    for node in islice(nodes, _MAX_LOOKED_AT):  # grows meanwhile
        nodes += node.items or [each.node for each in node.members]
        spans = _spans(node)
        if not spans or not _begins_line(text, spans[0][0]):
            continue
        base, indent = _indent(text, node.start), _indent(text, spans[0][0])
        if indent.startswith(base) and len(indent) > len(base):
            step = step or indent[len(base) :]
            long_lists = long_lists or bool(node.items and not isinstance(node.items[0].value, dict | list))
        if step and long_lists:
            break
    return step, long_lists


def _written(value: Any, style: _Style, indent: str, *, spread: bool) -> str:
    """A value as text: an item a line where `spread`, its first line standing at `indent`."""
    if not value or not isinstance(value, dict | list | tuple):
        return _dumps(value)
    inner = indent + style.step
    if isinstance(value, dict):
        parts = [
            f"{_dumps(key)}{style.colon}{_written(each, style, inner, spread=spread)}"
            for key, each in value.items()
        ]
    else:
        parts = [_written(each, style, inner, spread=spread) for each in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    line = opening + style.comma.join(parts) + closing
    scalars = isinstance(value, list | tuple) and not any(
        isinstance(each, dict | list | tuple) for each in value
    )
    if not spread or (scalars and not style.long_lists and len(line) <= _ONE_LINE_WIDTH):
        return line
    lines = f",{style.line_end}{inner}".join(parts)
    return f"{opening}{style.line_end}{inner}{lines}{style.line_end}{indent}{closing}"


def _dumps(value: Any) -> str:
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise DocumentError("this value cannot be written as JSON") from None
    lone_surrogate = written.encode(errors="replace") != written.encode(errors="surrogatepass")
    return json.dumps(value) if lone_surrogate else written

"""Edits of YAML by text spans: keys and items are added, replaced and cut out, and nothing else moves.

Called by `mcpx.setup.documents.editing`, which checks the outcome. Text in, text out. `ruamel.yaml` reads the
file; writing it back would fold and indent what it did not change, so the edits are made in the text. The
marks of that library end where the next token begins; the places here end where the last character of the
value stands.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Final

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError

from mcpx.core.text.jsonc import LINE_END, line_start
from mcpx.setup.documents import DocumentError, begins_line, line_end_of, nested

_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*")
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?:[ \t]#[^\r\n]*)?(?=\r|\n|\Z)")
_EMPTY: Final = {"mapping": "{}", "sequence": "[]"}
_MAX_VALUES: Final = 100_000
"""Values of a file with its aliases filled in: few bytes of YAML may stand for more than a memory holds."""
_MAX_BRACKETS: Final = 200
"""Brackets inside each other; the library takes minutes for thousands."""
_BRACKET: Final = re.compile(r"[\[{\]}]")
_COLON: Final = re.compile(r"[ \t]*:")
_ALIAS: Final = re.compile(r"(?:[ \t]*:|-)?[ \t]*\*[^\s,\[\]{}]+")


class _Style(msgspec.Struct, frozen=True):
    """The style of a file: blanks for a step of mappings, blanks before a dash, its line end."""

    step: int
    dash: int
    line_end: str


def read(text: str) -> Any:
    """Return the value of a text; no value is an empty object.

    Raises:
        DocumentError: It is not one YAML document, or holds what plain Python does not.
    """
    _check_depth(text)
    if "&" in text:  # an anchor: what it stands for may be counted only in nodes
        _compose(text)
    with _refusing():
        value = YAML(typ="safe", pure=True).load(text)
    return {} if value is None else value


def set_value(text: str, path: Sequence[str | int], value: Any) -> str:
    """The text with the value at a path replaced, or added with the keys above it."""
    root = _scan(text)
    if root is None:
        return _append_block(text, _block(nested(path, value), 0, _style(text, None)))
    place, rest, above = _deepest(root, path)
    value, style = nested(rest[1:], value), _style(text, root)
    if not rest:
        return _replace(text, place, value, style, in_flow=any(each.flow for each in above))
    if place.kind == "mapping" and place.children and isinstance(rest[0], str):
        return _insert(text, place, rest[0], value, style)
    if place.kind == "sequence" or not isinstance(rest[0], str):
        raise DocumentError(f"{rest[0]} cannot be set here")
    return _replace(text, place, {rest[0]: value}, style, in_flow=any(each.flow for each in above))


def append_item(text: str, path: Sequence[str | int], value: Any) -> str:
    """The text with one more item at the end of the list at a path, which is made if there is none."""
    root = _scan(text)
    place, rest, _ = _deepest(root, path) if root else (None, path, ())
    if place is None or rest or not place.children:
        return set_value(text, path, [value])
    return _insert(text, place, None, value, _style(text, root))


def remove_value(text: str, path: Sequence[str | int]) -> str:
    """The text without the key or item at a path."""
    root = _scan(text)
    place, rest, above = _deepest(root, path) if root else (None, path, ())
    if place is None or rest or not above:
        return text
    parent = above[-1]
    index = parent.children.index(place)
    if parent.flow:
        return _cut_flow(text, parent, index)
    rest_of_line = _REST_OF_LINE.match(text, place.end)
    if not rest_of_line:
        raise DocumentError("this cannot be taken out of its line")
    end = rest_of_line.end()
    if not begins_line(text, place.key_start):
        if index + 1 < len(parent.children):
            return text[: place.key_start] + text[parent.children[index + 1].key_start :]
        return text[: place.key_start] + _EMPTY[parent.kind] + text[end:]
    text = _cut_lines(text, line_start(text, place.key_start), end)
    if len(parent.children) > 1 or parent is root:
        return text
    return f"{text[: parent.start]} {_EMPTY[parent.kind]}{text[parent.start :]}"


def _deepest(root: Place, path: Sequence[str | int]) -> tuple[Place, Sequence[str | int], tuple[Place, ...]]:
    """The deepest place of a path, the steps that are not there, and the places above it."""
    place = root
    above: tuple[Place, ...] = ()
    for index, step in enumerate(path):
        found = place.child(step)
        if found is None:
            return place, path[index:], above
        place, above = found, (*above, place)
    return place, (), above


def _insert(text: str, parent: Place, key: str | None, value: Any, style: _Style) -> str:
    """The text with one more key or item behind the last one of a value that has some."""
    last = parent.children[-1]
    name = "" if key is None else f"{_scalar(key)}: "
    if parent.flow:
        return f"{text[: last.end]}, {name}{_flow(value)}{text[last.end :]}"
    column = parent.children[0].key_start - line_start(text, parent.children[0].key_start)
    lines = _block([value] if key is None else {key: value}, column, style)
    rest = _REST_OF_LINE.match(text, last.end)
    at = rest.end() if rest else last.end
    return text[:at] + "".join(style.line_end + line for line in lines) + text[at:]


def _replace(text: str, place: Place, value: Any, style: _Style, *, in_flow: bool) -> str:
    """The text with another value behind a colon or a dash, or as the whole."""
    if not isinstance(value, dict | list) or not value or in_flow:
        blank = "" if place.start == place.key_start else " "
        return text[: place.start] + blank + _flow(value) + text[place.end :]
    if place.start == place.key_start:
        return text[: place.start] + style.line_end.join(_block(value, 0, style)) + text[place.end :]
    column = place.key_start - line_start(text, place.key_start)
    deeper = style.dash if isinstance(value, list) and place.key is not None else style.step
    block = "".join(style.line_end + line for line in _block(value, column + deeper, style))
    if place.flow and (rest := _REST_OF_LINE.match(text, place.end)):
        return text[: place.start] + text[place.end : rest.end()] + block + text[rest.end() :]
    return text[: place.start] + block + text[place.end :]


def _append_block(text: str, lines: list[str]) -> str:
    line_end = line_end_of(text)
    blank = "" if not text or text.endswith(("\n", "\r")) else line_end
    return text + blank + "".join(line + line_end for line in lines)


def _cut_flow(text: str, parent: Place, index: int) -> str:
    """The text without a member or an item between brackets, and without its comma."""
    place = parent.children[index]
    if index + 1 < len(parent.children):
        return text[: place.key_start] + text[parent.children[index + 1].key_start :]
    start = parent.children[index - 1].end if index else place.key_start
    return text[:start] + text[place.end :]


def _cut_lines(text: str, start: int, end: int) -> str:
    """The text without the lines from an offset to another; a file without a line end at its end stays so."""
    if line_end := LINE_END.match(text, end):
        return text[:start] + text[line_end.end() :]
    before = text[:start]
    last = list(LINE_END.finditer(before, max(start - 2, 0)))
    return before[: last[0].start()] if last else before


def _style(text: str, root: Place | None) -> _Style:
    steps: dict[str, int] = {}
    if root:
        _measure(text, root, 0, steps)
    return _Style(steps.get("mapping", 2), steps.get("sequence", 2), line_end_of(text))


def _measure(text: str, place: Place, column: int, steps: dict[str, int]) -> None:
    """Write down by how much the first block mapping and the first block list behind a key are indented."""
    for child in place.children:
        own = child.key_start - line_start(text, child.key_start)
        if place.key is not None and not place.flow and begins_line(text, child.key_start):
            steps.setdefault(place.kind, own - column)
        _measure(text, child, own, steps)


def _block(value: Any, column: int, style: _Style) -> list[str]:
    """The lines of a mapping or a list that begin at a column."""
    lines = []
    for name, each in value.items() if isinstance(value, dict) else [("-", item) for item in value]:
        head = " " * column + ("-" if isinstance(value, list) else f"{_scalar(str(name))}:")
        if not isinstance(each, dict | list) or not each:
            lines.append(f"{head} {_flow(each)}")
        elif isinstance(value, list):
            inner = _block(each, column + 2, style)
            lines += [f"{head} {inner[0].lstrip(' ')}", *inner[1:]]
        else:
            deeper = style.dash if isinstance(each, list) else style.step
            lines += [head, *_block(each, column + deeper, style)]
    return lines


def _flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(str(key))}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """A value that is no mapping and no list; a string is quoted unless it can be read in one way only."""
    if not isinstance(value, str):
        written = json.dumps(value)
        return written.replace("e", ".0e") if isinstance(value, float) and "." not in written else written
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    written = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in written)


# --- where the keys, items and values of a file stand


class Place(msgspec.Struct, frozen=True):
    """A value: `text[start:end]`, behind a key at `key_start`, an item's dash, or nothing.

    `start` is where the value may be written: directly behind the colon or the dash, before the blanks.
    """

    kind: str
    """`mapping`, `sequence` or `scalar`."""
    flow: bool
    """Written in brackets."""
    key: str | None
    key_start: int
    start: int
    end: int
    children: tuple[Place, ...]

    def child(self, step: str | int) -> Place | None:
        """The value at a key or an index."""
        if isinstance(step, int):
            items = self.children if self.kind == "sequence" else ()
            return items[step] if 0 <= step < len(items) else None
        return next((each for each in self.children if each.key == step), None)


def _check_depth(text: str) -> None:
    depths = accumulate(1 if found[0] in "[{" else -1 for found in _BRACKET.finditer(text))
    if max(depths, default=0) > _MAX_BRACKETS:
        raise DocumentError("this is nested too deeply")


def _compose(text: str) -> Any:
    """Return the node of a text, as `ruamel.yaml` has it; None for a text with no value."""
    _check_depth(text)
    with _refusing():
        node = YAML(typ="rt", pure=True).compose(text)
        if node is not None and _size(node, {}) > _MAX_VALUES:
            raise DocumentError("this YAML is too large, or refers to itself")
        return node


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn the errors of the library into `DocumentError`; YAML allows what it warns of: an anchor twice."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            yield
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise DocumentError(f"this is not YAML: {error.problem or error.context}", *place) from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise DocumentError(f"this is not YAML: {str(error).splitlines()[0]}") from None


def _size(node: Any, known: dict[int, int]) -> int:
    """Return the number of values that a node stands for; more than enough where it holds itself."""
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = _MAX_VALUES + 1
    children = () if node.id == "scalar" else node.value
    pairs = node.id == "mapping"
    size = 1 + sum(_size(each, known) for child in children for each in (child if pairs else (child,)))
    known[id(node)] = size
    return size


def _scan(text: str) -> Place | None:
    """Return the outermost value of a text, with the places of all inside it."""
    node = _compose(text)
    try:
        return None if node is None else _place(text, node, first := node.start_mark.index, None, first)
    except RecursionError:  # it takes more of the stack than reading does
        raise DocumentError("this YAML is nested too deeply") from None


def _place(text: str, node: Any, start: int, key: str | None, key_start: int) -> Place:
    """The place of a node that is written behind `start`."""
    first = node.start_mark.index
    alias = _ALIAS.match(text, start)
    if alias and (first < start or first >= alias.end()):
        return Place(
            "scalar", flow=True, key=key, key_start=key_start, start=start, end=alias.end(), children=()
        )
    children: tuple[Place, ...] = ()
    if node.id == "mapping":
        children = tuple(_member(text, *pair) for pair in node.value)
    elif node.id == "sequence":
        children = tuple(_item(text, item, flow=bool(node.flow_style)) for item in node.value)
    end = node.end_mark.index
    if node.id != "scalar" and not node.flow_style:
        end = children[-1].end if children else end
    elif node.id == "scalar" and node.start_mark.index == end:
        end = start
    else:
        end = len(text[:end].rstrip())
    flow = node.id == "scalar" or bool(node.flow_style)
    return Place(node.id, flow, key, key_start, start, end, children)


def _member(text: str, key: Any, value: Any) -> Place:
    end = key.end_mark.index
    colon = _COLON.match(text, end)
    if key.id != "scalar" or not colon:
        raise DocumentError(
            "this key is written in an unusual way", key.start_mark.line + 1, key.start_mark.column + 1
        )
    return _place(text, value, colon.end(), str(key.value), key.start_mark.index)


def _item(text: str, node: Any, *, flow: bool) -> Place:
    first = node.start_mark.index
    if flow:
        return _place(text, node, first, None, first)
    dash = text.rfind("-", 0, first)
    return _place(text, node, dash + 1, None, dash)

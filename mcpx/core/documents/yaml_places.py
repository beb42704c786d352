"""Where the keys, items and values of a YAML file stand, by the marks of `ruamel.yaml`.

Called by `mcpx.core.documents.yaml_edits`. The marks of that library end where the next token begins; the
places here end where the last character of the value stands.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, Final

import msgspec

from mcpx.core.documents import DocumentError

_MAX_VALUES: Final = 100_000
"""Values of a file with its aliases filled in: few bytes of YAML may stand for more than a memory holds."""

_MAX_BRACKETS: Final = 200
"""Brackets inside each other; the library takes minutes for thousands."""

_BRACKET: Final = re.compile(r"[\[{\]}]")
_COLON: Final = re.compile(r"[ \t]*:")
_ALIAS: Final = re.compile(r"(?:[ \t]*:|-)?[ \t]*\*[^\s,\[\]{}]+")


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


def load(text: str) -> Any:
    """The value of a text.

    Raises:
        DocumentError: It is not one YAML document, or holds what plain Python does not.
    """
    from ruamel.yaml import YAML  # noqa: PLC0415 - heavy

    _check_depth(text)
    if "&" in text:  # an anchor: what it stands for may be counted only in nodes
        compose(text)
    with _Refusal():
        return YAML(typ="safe", pure=True).load(text)


def _check_depth(text: str) -> None:
    depths = accumulate(1 if found[0] in "[{" else -1 for found in _BRACKET.finditer(text))
    if max(depths, default=0) > _MAX_BRACKETS:
        raise DocumentError("this is nested too deeply")


def compose(text: str) -> Any:
    """The node of a text, as `ruamel.yaml` has it; `None` for a text with no value.

    Raises:
        DocumentError: It is not one YAML document, or is too large with its aliases filled in.
    """
    from ruamel.yaml import YAML  # noqa: PLC0415 - heavy

    _check_depth(text)
    with _Refusal():
        node = YAML(typ="rt", pure=True).compose(text)
        if node is not None and _size(node, {}) > _MAX_VALUES:
            raise DocumentError("this YAML is too large, or refers to itself")
        return node


class _Refusal:
    """Turns the errors of the library into `DocumentError`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415 - heavy

        if isinstance(error, MarkedYAMLError):
            mark = error.problem_mark or error.context_mark
            place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            raise DocumentError(f"this is not YAML: {error.problem or error.context}", *place) from None
        if isinstance(error, YAMLError | ValueError | RecursionError):
            raise DocumentError(f"this is not YAML: {str(error).splitlines()[0]}") from None


def _size(node: Any, known: dict[int, int]) -> int:
    """How many values a node stands for; more than enough where it holds itself."""
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = _MAX_VALUES + 1
    children = () if node.id == "scalar" else node.value
    pairs = node.id == "mapping"
    size = 1 + sum(_size(each, known) for child in children for each in (child if pairs else (child,)))
    known[id(node)] = size
    return size


def scan(text: str) -> Place | None:
    """The outermost value of a text, with the places of all inside it.

    Raises:
        DocumentError: It is not one YAML document.
    """
    node = compose(text)
    return None if node is None else _place(text, node, node.start_mark.index, None, node.start_mark.index)


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
        children = tuple(_item(text, item, bool(node.flow_style)) for item in node.value)
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


def _item(text: str, node: Any, flow: bool) -> Place:  # noqa: FBT001 - private
    first = node.start_mark.index
    if flow:
        return _place(text, node, first, None, first)
    dash = text.rfind("-", 0, first)
    return _place(text, node, dash + 1, None, dash)

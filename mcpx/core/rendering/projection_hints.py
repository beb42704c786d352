"""What JSON data look like, in one line, and an expression that fits them. Pure, and bounded for any data."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, Final

from mcpx.core.text import cut, one_line

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_NAMES: Final = 12
_MAX_NAME_CHARS: Final = 40
_MAX_LEVELS: Final = 3
_EXAMPLE_NAMES: Final = 2
_KINDS: Final = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}


def describe(value: Any, levels: int = _MAX_LEVELS) -> str:
    """`{total: number, items: array of 1,000 {id: number, title: string}}`."""
    if isinstance(value, list):
        return f"array of {len(value):,} {describe(value[0], levels - 1)}" if value else "empty array"
    if not isinstance(value, dict):
        return _KINDS.get(type(value), "value")
    if levels <= 0:
        return "object"
    first = islice(value.items(), _MAX_NAMES)
    members = [f"{_shown(name)}: {describe(each, levels - 1)}" for name, each in first]
    more = [f"... {len(value) - _MAX_NAMES:,} more"] if len(value) > _MAX_NAMES else []
    return "{" + ", ".join([*members, *more]) + "}"


def example(value: Any) -> str:
    """An expression that takes a part of these data."""
    if isinstance(value, list):
        return _of_rows(value)
    if not isinstance(value, dict):
        return "@"
    usable = {name: each for name, each in value.items() if len(name) <= _MAX_NAME_CHARS}
    lists = {name: each for name, each in usable.items() if isinstance(each, list) and each}
    if lists:
        name = max(lists, key=lambda each: len(lists[each]))
        return _written(name) + _of_rows(lists[name])
    if len(usable) == 1:
        ((name, inner),) = usable.items()
        within = example(inner)
        return _written(name) + (f".{within}" if within != "@" else "")
    return _members(usable)


def _of_rows(rows: list[Any]) -> str:
    members = _members(rows[0]) if rows and isinstance(rows[0], dict) else "@"
    return "[:10]" if members == "@" else f"[].{members}"


def _members(value: dict[str, Any]) -> str:
    names = [name for name in value if len(name) <= _MAX_NAME_CHARS][:_EXAMPLE_NAMES]
    return "{" + ", ".join(f"{name}: {name}" for name in map(_written, names)) + "}" if names else "@"


def _written(name: str) -> str:
    """A name as an expression has it."""
    return name if _NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _shown(name: str) -> str:
    return cut(one_line(name[: 4 * _MAX_NAME_CHARS]), _MAX_NAME_CHARS)

"""JSON values as text on one line: TypeScript literals, property names, comments, compact JSON. Pure.

Called by the rest of this package. None of the functions raises on JSON, and none lets a line break, an
unpaired quote, the end of a comment or an invisible character through.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from mcpx.core.text import hides, json_escaped

_IN_QUOTES: Final = re.compile(r"[\\']")
_VALUE_CHARS: Final = 4  # that a value takes beside its text: punctuation, a number


def single_quoted(text: str) -> str:
    """A string literal in single quotes, which need no escape inside JSON or TOON."""
    return "'" + json_escaped(_IN_QUOTES.sub(r"\\\g<0>", text)) + "'"


def key(name: str) -> str:
    """A property name, quoted unless it is an identifier."""
    return name if name.replace("$", "_").isidentifier() and not hides(name) else single_quoted(name)


def literal(value: Any) -> str:
    """A JSON value in TypeScript: `'a'`, `1`, `null`, `[1, 2]`, `{a: 1}`; `1.0` is `1`, as in the schema."""
    match value:
        case str():
            return single_quoted(value)
        case float() if value.is_integer() and abs(value) < 2**53:
            return str(int(value))
        case list():
            return f"[{', '.join(map(literal, value))}]"
        case dict():
            return f"{{{', '.join(f'{key(name)}: {literal(item)}' for name, item in value.items())}}}"
        case _:
            return json.dumps(value)


def shortened(text: str, length: int) -> str:
    """At most `length` characters, and `...` where there were more."""
    return text if len(text) <= length else text[:length].rstrip() + "..."


def pattern(text: str) -> str:
    """A regular expression on one line: line breaks and what harms a reader by their escapes."""
    return json_escaped(text)


def comment(text: str) -> str:
    r"""The text as a comment that it cannot end: `*/` becomes `*\/`, the same to a regular expression."""
    return "/* " + text.replace("*/", "*\\/") + " */"


def compact_json(value: Any) -> str:
    """The shortest JSON on one line, at any depth of nesting."""
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except RecursionError:
        text = "".join(_deep_json(value))
    return json_escaped(text)


def _deep_json(value: Any) -> list[str]:
    """The pieces of compact JSON, without recursion. A tuple on the stack is text that is ready."""
    pieces: list[str] = []
    stack: list[Any] = [value]
    while stack:
        match stack.pop():
            case tuple() as ready:
                pieces.extend(ready)
            case dict() as members:
                heads = [json.dumps(name, ensure_ascii=False) + ":" for name in members]
                stack.append(("}",))
                stack.extend(_punctuated(heads, list(members.values())))
                pieces.append("{")
            case list() as items:
                stack.append(("]",))
                stack.extend(_punctuated([""] * len(items), items))
                pieces.append("[")
            case scalar:
                pieces.append(json.dumps(scalar, ensure_ascii=False))
    return pieces


def _punctuated(heads: list[str], values: list[Any]) -> list[Any]:
    """Values and the text before each, last first, as the stack of `_deep_json` wants them."""
    laid: list[Any] = []
    for index, (head, value) in enumerate(zip(heads, values, strict=True)):
        laid += [("," if index else "", head), value]
    return laid[::-1]


def outweighs(value: Any, limit: int) -> bool:
    """Return True if `value` takes more than about `limit` characters as JSON; stops looking there."""
    weight = 0
    stack = [value]
    while stack and weight <= limit:
        match stack.pop():
            case str() as text:
                weight += len(text) + _VALUE_CHARS
            case dict() as members:
                weight += _VALUE_CHARS * (len(members) + 1)
                if weight <= limit:
                    weight += sum(map(len, members))
                    stack.extend(members.values())
            case list() as items:
                weight += _VALUE_CHARS * (len(items) + 1)
                if weight <= limit:
                    stack.extend(items)
            case _:
                weight += _VALUE_CHARS
    return weight > limit

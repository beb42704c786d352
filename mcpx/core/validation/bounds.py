"""Limits on the size of arguments and schemas, and where each is checked. Pure.

All clients share the event loop: what takes longer than a few milliseconds is done in a process of its own,
or not at all.
"""

from __future__ import annotations

from typing import Any, Final

MAX_INLINE_BYTES: Final = 1 << 18  # of arguments that are decoded on the event loop: 3 ms
MAX_CHECKED_BYTES: Final = 1 << 24  # of arguments that are checked: a worker reads them in half its time
MAX_TEXT_BYTES: Final = 1 << 23  # of a JSON string that holds the arguments
MAX_SCHEMA_VALUES: Final = 20_000  # in a schema that is checked with: 10 ms
MAX_SCHEMA_CHARS: Final = 1 << 20  # of all texts in it
MAX_SCHEMA_DEPTH: Final = 200  # levels; its own metaschema takes jsonschema several frames a level


def why_too_large(schema: Any, most: int = MAX_SCHEMA_VALUES) -> str | None:
    """Say why a schema is too large to be checked with; None if it is not, with at most `most` values."""
    nodes = text = 0
    stack: list[tuple[Any, int]] = [(schema, 0)]
    while stack:
        value, depth = stack.pop()
        nodes += len(value) if isinstance(value, dict | list) else 0
        if depth > MAX_SCHEMA_DEPTH:
            return f"the schema is nested over {MAX_SCHEMA_DEPTH} levels deep"
        if nodes > most:
            return f"the schema holds over {most} values"
        children = value
        if isinstance(value, dict):
            text += sum(map(len, value))
            children = value.values()
        for child in children if isinstance(value, dict | list) else ():
            if isinstance(child, str):
                text += len(child)
            elif isinstance(child, dict | list):
                stack.append((child, depth + 1))
        if text > MAX_SCHEMA_CHARS:
            return f"the schema holds over {MAX_SCHEMA_CHARS} characters"
    return None

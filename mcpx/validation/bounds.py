"""How large arguments and schemas may be to be looked at, and where. Pure.

The event loop is everybody's: what takes longer there than a few milliseconds is done in a process apart, or
not at all.
"""

from __future__ import annotations

import math
from typing import Any, Final

INLINE: Final = 1 << 18  # bytes of arguments that are decoded on the loop: 3 ms
CHECKED: Final = (
    1 << 24
)  # bytes of arguments that are checked at all: a worker reads them in the half of its time
TEXT_HELD: Final = 1 << 23  # bytes of a JSON string that holds the arguments
SCHEMA_NODES: Final = 20_000  # values in a schema that is looked at: 10 ms
SCHEMA_TEXT: Final = 1 << 20  # characters of the texts in it
SCHEMA_DEPTH: Final = 200  # levels; its own metaschema takes jsonschema several frames a level


def why_too_large(schema: Any, most: int = SCHEMA_NODES) -> str | None:
    """What keeps a schema from being looked at: its size or depth. None for one of at most `most` values."""
    nodes = text = 0
    stack: list[tuple[Any, int]] = [(schema, 0)]
    while stack:
        value, depth = stack.pop()
        nodes += len(value) if isinstance(value, dict | list) else 0
        if depth > SCHEMA_DEPTH:
            return f"the schema is nested over {SCHEMA_DEPTH} levels deep"
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
        if text > SCHEMA_TEXT:
            return f"the schema holds over {SCHEMA_TEXT} characters"
    return None


def holds_no_number(value: Any) -> bool:
    """Whether NaN or an infinity is in there, which JSON has no word for."""
    stack = [value]
    while stack:
        match stack.pop():
            case float() as number:
                if not math.isfinite(number):
                    return True
            case dict() as members:
                stack.extend(members.values())
            case list() | tuple() as items:
                stack.extend(items)
    return False

"""Whether a JSON value is too large to be worked on, found out without working on all of it."""

from __future__ import annotations

from typing import Any, Final

_NODE: Final = 4  # characters that a value takes beside its text: punctuation, a number


def outweighs(value: Any, limit: int) -> bool:
    """Whether `value` takes more than about `limit` characters as JSON; looks at no more than that."""
    weight = 0
    stack = [value]
    while stack and weight <= limit:
        match stack.pop():
            case str() as text:
                weight += len(text) + _NODE
            case dict() as members:
                weight += _NODE * (len(members) + 1)
                if weight <= limit:
                    weight += sum(map(len, members))
                    stack.extend(members.values())
            case list() as items:
                weight += _NODE * (len(items) + 1)
                if weight <= limit:
                    stack.extend(items)
            case _:
                weight += _NODE
    return weight > limit

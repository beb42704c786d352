"""The work that reading a JSON text is, judged without reading it; and what JSON cannot say. Pure."""

from __future__ import annotations

import math
import re
from typing import Any, Final

MAX_WORK: Final = 8_000_000  # of a large message that is read whole: half a second
_CONTAINER_WORK: Final = 8  # what an object or array costs, beside a scalar
_MAX_TEXTS: Final = 100_000  # left out where values are counted again
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def work_of(text: bytes) -> int:
    """Return an upper bound of the cost of reading a JSON text, by its commas and brackets."""
    containers = len(text) - len(text.translate(None, b"{["))
    return _CONTAINER_WORK * containers + text.count(b",")


def takes_long(text: bytes, work: int | None = None) -> bool:
    """Return True if a JSON text holds too many values to be read whole; `work` is that of it, if known."""
    if (work_of(text) if work is None else work) <= MAX_WORK:
        return False
    return work_of(_TEXT.sub(b'""', text, _MAX_TEXTS)) > MAX_WORK  # what stands in texts costs nothing


def holds_nonfinite(value: Any) -> bool:
    """Return True if a NaN or an infinity is in `value`, which JSON cannot say."""
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

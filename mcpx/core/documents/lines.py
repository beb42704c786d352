"""Lines of a text, as the editors of all syntaxes see them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

LINE_END: Final = re.compile(r"\r\n?|\n")


def line_start(text: str, offset: int) -> int:
    """Where the line of an offset begins."""
    start = text.rfind("\n", 0, offset) + 1
    return max(start, text.rfind("\r", start, offset) + 1)


def begins_line(text: str, offset: int) -> bool:
    """Whether only blanks stand before an offset on its line."""
    return not text[line_start(text, offset) : offset].strip(" \t")


def line_end_of(text: str) -> str:
    """The line end that a text has; that of Unix if it has none."""
    found = LINE_END.search(text)
    return found[0] if found else "\n"


def nested(steps: Sequence[str | int], value: Any) -> Any:
    """A value inside new objects, one a step."""
    for step in reversed(steps):
        value = {step: value}
    return value

"""Files that people and other programs write, edited in place: JSON with comments, TOML and YAML.

`editing.Document` changes single values of a file in any of the three syntaxes and leaves every other byte
alone; `configuration` does so for the servers of MCPX's own. Pure: bytes in, bytes or values out. All but
`configuration` knows nothing of MCP, of clients, or of where files are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcpx.core.text.jsonc import LINE_END, line_start
from mcpx.errors import MCPXError


class DocumentError(MCPXError):
    """A file is not understood, or cannot be edited in place: `problem` at `line` and `column`, from 1."""

    def __init__(self, problem: str, line: int = 1, column: int = 1) -> None:
        super().__init__(f"line {line}, column {column}: {problem}")
        self.problem = problem
        self.line = line
        self.column = column


# --- lines, as the editors of all syntaxes see them


def begins_line(text: str, offset: int) -> bool:
    """Return True if only blanks stand before an offset on its line."""
    return not text[line_start(text, offset) : offset].strip(" \t")


def line_end_of(text: str) -> str:
    """Return the line end that a text has; that of Unix if it has none."""
    found = LINE_END.search(text)
    return found[0] if found else "\n"


# --- values


def value_at(value: Any, path: Sequence[str | int]) -> Any:
    """Return the value at a path of keys and indices; None if there is none."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and 0 <= step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def nested(steps: Sequence[str | int], value: Any) -> Any:
    """Return a value inside new objects, one a step."""
    for step in reversed(steps):
        value = {step: value}
    return value

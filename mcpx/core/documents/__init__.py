"""Files that people and other programs write: JSON with comments, TOML and YAML, read and edited in place.

`jsonc` reads JSON with comments and trailing commas and says where each value stands; `editing` changes one
value of a file in any of the three syntaxes and leaves every other byte alone. Pure: bytes or text in, bytes
or values out. Knows nothing of MCP, of clients, or of where files are.
"""

from __future__ import annotations

from mcpx.errors import MCPXError


class DocumentError(MCPXError):
    """A file is not understood, or cannot be edited in place: `problem` at `line` and `column`, from 1."""

    def __init__(self, problem: str, line: int = 1, column: int = 1) -> None:
        super().__init__(f"line {line}, column {column}: {problem}")
        self.problem = problem
        self.line = line
        self.column = column

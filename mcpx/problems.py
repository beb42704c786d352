"""What is wrong with the arguments of a call, as a model can act on it: where, and what was expected."""

from __future__ import annotations

from typing import Any

import msgspec

from mcpx.catalog.model import ToolInfo
from mcpx.config.place import kind_of as plain_kind_of
from mcpx.errors import CallError, Code
from mcpx.schema_ts import SchemaConverter


class Problem(msgspec.Struct, frozen=True):
    """One offending place: a path such as `$.files[0].name`, and what is wrong there."""

    path: str
    problem: str


def invalid_arguments(tool: ToolInfo, problems: list[Problem]) -> CallError:
    """The error that names every problem and shows the schema in its TypeScript form; nothing was sent."""
    schema = SchemaConverter.convert(tool.input_schema)
    lines = "\n".join(f"- {problem.path}: {problem.problem}" for problem in problems)
    name = f"{tool.server_name}.{tool.name}"
    text = f"Invalid arguments for {name}; nothing was sent.\n{lines}\nIt takes: {schema}"
    details = {"problems": [{"path": p.path, "problem": p.problem} for p in problems], "schema": schema}
    return CallError(Code.INVALID_ARGUMENTS, text, server=tool.server_name, tool=tool.name, details=details)


def kind_of(value: Any) -> str:
    """A JSON value, named for a message: `null`, `a boolean`, `the number 3`, `the string "x"`, ..."""
    match value:
        case bool():
            return plain_kind_of(value)
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {shown(value)}"
        case _:
            return plain_kind_of(value)


def shown(value: Any) -> str:
    """A JSON value in a line's worth of characters."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - a line's worth

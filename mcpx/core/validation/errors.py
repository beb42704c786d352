"""Errors about arguments that a model can act on: where something is wrong, and what was expected.

Their size is bounded for any schema and arguments: `MAX_PROBLEMS` of a line each, and a schema cut short.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.rendering.typescript import SchemaConverter, outweighs
from mcpx.core.text import kind_of, shown_name
from mcpx.core.validation.bounds import why_too_large
from mcpx.errors import CallError, Code

MAX_PROBLEMS: Final = 10  # in one message; a model mends a few at a time
MAX_PATH_CHARS: Final = 200
MAX_PROBLEM_CHARS: Final = 400
MAX_SCHEMA_CHARS: Final = 6000  # inspect shows the whole
MAX_DESCRIBED_CHARS: Final = 300  # of a schema with the descriptions of its parameters
_MAX_DESCRIBED_JSON: Final = 1200  # characters of the schema itself; the type of a longer one is longer, too
MAX_CONVERTED_VALUES: Final = (
    500  # values in a schema that is made a type on the event loop: some milliseconds
)


class Problem(msgspec.Struct, frozen=True):
    """What is wrong at one place; `path` is such as `$.files[0].name`."""

    path: str
    problem: str


def invalid_arguments(tool: ToolInfo, problems: list[Problem], schema: str | None = None) -> CallError:
    """Make the error that lists the problems and shows the schema as a TypeScript type.

    `schema` is that type, if it is known already.
    """
    if schema is None:
        too_large = why_too_large(tool.input_schema, MAX_CONVERTED_VALUES)
        schema = "" if too_large else schema_text(tool.input_schema)
    shown = shown_name(tool.name)
    takes = f"It takes: {schema}" if schema else f"inspect({tool.server_name}, {shown}) shows what it takes"
    problems = [_in_brief(problem) for problem in problems[:MAX_PROBLEMS]]
    lines = "\n".join(f"- {problem.path}: {problem.problem}" for problem in problems)
    name = f"{tool.server_name}.{shown}"
    text = f"Invalid arguments for {name}; nothing was sent.\n{lines}\n{takes}"
    details = {"problems": [{"path": p.path, "problem": p.problem} for p in problems], "schema": schema}
    return CallError(Code.INVALID_ARGUMENTS, text, server=tool.server_name, tool=tool.name, details=details)


def unreadable_arguments(server: str, tool: str, problem: str) -> CallError:
    """Make the error for arguments that are no JSON; the tool need not exist."""
    text = f"Invalid arguments for {server}.{shown_name(tool)}; nothing was sent.\n- $: {problem}"
    details = {"problems": [{"path": "$", "problem": problem}]}
    return CallError(Code.INVALID_ARGUMENTS, text, server=server, tool=tool, details=details)


def schema_text(schema: Any) -> str:
    """Return a schema as a TypeScript type: a long one without descriptions, a very long one cut."""
    if not outweighs(schema, _MAX_DESCRIBED_JSON):
        described = SchemaConverter.convert(schema)
        if len(described) <= MAX_DESCRIBED_CHARS:
            return described
    return cut_middle(SchemaConverter.convert(schema, max_description_len=0), MAX_SCHEMA_CHARS)


def _in_brief(problem: Problem) -> Problem:
    return Problem(cut_middle(problem.path, MAX_PATH_CHARS), cut_middle(problem.problem, MAX_PROBLEM_CHARS))


def cut_middle(text: str, most: int) -> str:
    """Cut the middle out of a text that is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def describe_value(value: Any) -> str:
    """Describe a JSON value for a message: `null`, `a boolean`, `the number 3`, `the string "x"`, ..."""
    match value:
        case bool():
            return kind_of(value)
        case int() | float():
            return f"the number {cut_middle(str(value), 60)}"
        case str():
            return f"the string {brief(value)}"
        case _:
            return kind_of(value)


def brief(value: Any) -> str:
    """A JSON value in a line's worth of characters."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - a line's worth

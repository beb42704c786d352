"""What is wrong with the arguments of a call, as a model can act on it: where, and what was expected.

Bounded, whatever the server's schema and the client's arguments are: `MAX_PROBLEMS` of a line each, and a
schema that is shown as far as somebody may read it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.catalog.model import ToolInfo
from mcpx.errors import CallError, Code
from mcpx.rendering.typescript import SchemaConverter
from mcpx.text import kind_of, shown_name
from mcpx.validation.bounds import why_too_large

MAX_PROBLEMS: Final = 10  # in one message; a model mends a few at a time
PATH_SHOWN: Final = 200  # characters
PROBLEM_SHOWN: Final = 400  # characters
SCHEMA_SHOWN: Final = 6000  # characters; the whole is a matter for inspect
CONVERTED: Final = 500  # values in a schema that is made a type on the event loop: some milliseconds


class Problem(msgspec.Struct, frozen=True):
    """One offending place: a path such as `$.files[0].name`, and what is wrong there."""

    path: str
    problem: str


def invalid_arguments(tool: ToolInfo, problems: list[Problem], schema: str | None = None) -> CallError:
    """The error that names every problem and shows the schema in its TypeScript form; nothing was sent.

    `schema` is that form, where it is known already.
    """
    if schema is None:
        schema = schema_text(tool.input_schema) if why_too_large(tool.input_schema, CONVERTED) is None else ""
    shown = shown_name(tool.name)
    takes = f"It takes: {schema}" if schema else f"inspect({tool.server_name}, {shown}) shows what it takes"
    problems = [_in_brief(problem) for problem in problems[:MAX_PROBLEMS]]
    lines = "\n".join(f"- {problem.path}: {problem.problem}" for problem in problems)
    name = f"{tool.server_name}.{shown}"
    text = f"Invalid arguments for {name}; nothing was sent.\n{lines}\n{takes}"
    details = {"problems": [{"path": p.path, "problem": p.problem} for p in problems], "schema": schema}
    return CallError(Code.INVALID_ARGUMENTS, text, server=tool.server_name, tool=tool.name, details=details)


def unreadable_arguments(server: str, tool: str, problem: str) -> CallError:
    """The error for arguments that are no JSON, for a tool that need not be known; nothing was sent."""
    text = f"Invalid arguments for {server}.{shown_name(tool)}; nothing was sent.\n- $: {problem}"
    details = {"problems": [{"path": "$", "problem": problem}]}
    return CallError(Code.INVALID_ARGUMENTS, text, server=server, tool=tool, details=details)


def schema_text(schema: Any) -> str:
    """A schema in its TypeScript form, cut where it is long."""
    return cut_middle(SchemaConverter.convert(schema), SCHEMA_SHOWN)


def _in_brief(problem: Problem) -> Problem:
    return Problem(cut_middle(problem.path, PATH_SHOWN), cut_middle(problem.problem, PROBLEM_SHOWN))


def cut_middle(text: str, most: int) -> str:
    """The text without its middle, where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def described(value: Any) -> str:
    """A JSON value, named for a message: `null`, `a boolean`, `the number 3`, `the string "x"`, ..."""
    match value:
        case bool():
            return kind_of(value)
        case int() | float():
            return f"the number {cut_middle(str(value), 60)}"
        case str():
            return f"the string {shown(value)}"
        case _:
            return kind_of(value)


def shown(value: Any) -> str:
    """A JSON value in a line's worth of characters."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - a line's worth

"""The parameters of the three tools, read from what a client sent: plain, or with the usual slips.

Pure. Called by the SDK's server; the fast path takes only calls that need no such reading. A name that is
null or empty counts as not given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.gateway.tools.definitions import EXEC, SCHEMAS
from mcpx.core.text import cut, kind_of, one_line, shown_name
from mcpx.core.text.nearest import nearest
from mcpx.core.validation.errors import Problem, invalid_arguments
from mcpx.errors import NAME_LEN, CallError

_ADDED_BY_HOSTS: Final = frozenset({"action", "chatInput", "sessionId", "tool", "toolCallId"})
"""Members that n8n adds to the arguments of every call (its issues 21500 and 22787)."""
_HOST_MARKS: Final = ("toolCallId", "chatInput")  # where one of these is, the others are not the model's
_SHORT: Final = {"server_name": "server", "tool_name": "tool"}
_MAX_DIGITS: Final = 18
_MAX_COMBINED: Final = 50  # schemas looked at for the names of a tool's parameters


class WrongParameter(Exception):
    """A parameter of one of the three tools is of the wrong type; `str()` says which and how."""


class ExecParameters(msgspec.Struct, frozen=True):
    """A call of exec. `others` are the members that exec itself does not have."""

    server_name: str
    tool_name: str
    arguments: Any
    select: str | None
    max_tokens: int | None
    others: JSON


def read_exec(given: JSON) -> ExecParameters:
    """The parameters of a call of exec.

    Raises:
        WrongParameter: One is of the wrong type.
    """
    used = (short for name, short in _SHORT.items() if given.get(name) is None)
    taken = {*SCHEMAS[EXEC]["properties"], *(_ADDED_BY_HOSTS if _comes_with_more(given) else used)}
    return ExecParameters(
        server_name=text(given, "server_name"),
        tool_name=text(given, "tool_name"),
        arguments=given.get("arguments"),
        select=text(given, "select") or None,
        max_tokens=_max_tokens(given.get("max_tokens")),
        others={name: value for name, value in given.items() if name not in taken},
    )


def tool_names(given: JSON) -> tuple[str, ...]:
    """The names in the `tool_name` of inspect: one, an array, or an array or list in a string.

    Raises:
        WrongParameter: It is something else.
    """
    value = _given(given, "tool_name")
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return (str(value),)
    names = value if isinstance(value, list) else [value or ""]
    if not all(isinstance(name, str) for name in names):
        raise WrongParameter("tool_name must be a string or an array of strings")
    return tuple(dict.fromkeys(name for name in names if name))


def text(given: JSON, name: str) -> str:
    """The parameter of that name, a string; "" where it is not given.

    Raises:
        WrongParameter: It is something else.
    """
    value = _given(given, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WrongParameter(f"{name} must be a string")
    return value


def _given(given: JSON, name: str) -> Any:
    """The value of a parameter, by its name or a shorter one that is as plain; None where there is none."""
    value = given.get(name)
    if value is not None or name not in _SHORT or _comes_with_more(given):
        return value
    return given.get(_SHORT[name])


def _comes_with_more(given: JSON) -> bool:
    """Return True if the host has added members of its own."""
    return any(mark in given for mark in _HOST_MARKS)


def _max_tokens(value: Any) -> int | None:
    if isinstance(value, str):
        value = int(value) if value.strip().isdecimal() and len(value) <= _MAX_DIGITS else value or None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    shown = value if isinstance(value, int | float) and not isinstance(value, bool) else kind_of(value)
    raise WrongParameter(f"max_tokens must be a whole number, 0 or more, got {shown}")


# --- arguments of the tool that stand beside `arguments`


def collect_arguments(given: ExecParameters, tool: ToolInfo) -> Any:
    """The arguments of a call, with those that stand beside tool_name and are parameters of the tool.

    Raises:
        CallError: `invalid_arguments`: one is no parameter of the tool, or is given twice.
    """
    if not given.others:
        return given.arguments
    known = parameter_names(tool.input_schema)
    if strange := given.others.keys() - known:
        raise _refusal(
            tool, {name: f"is no parameter of exec or of this tool{_near(name, known)}" for name in strange}
        )
    arguments = given.arguments
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    if arguments is None:
        return given.others
    if not isinstance(arguments, dict):
        return given.arguments  # it is refused for that
    twice = {name for name in given.others.keys() & arguments if arguments[name] != given.others[name]}
    if twice:
        raise _refusal(tool, dict.fromkeys(twice, "is given twice, beside `arguments` and in it"))
    return {**given.others, **arguments}


def parameter_names(schema: JSON) -> set[str]:
    """The names of a tool's parameters that its schema says, in alternatives and combinations too."""
    names: set[str] = set()
    waiting: list[Any] = [schema]
    for _ in range(_MAX_COMBINED):
        if not waiting:
            break
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        properties = part.get("properties")
        names.update(properties if isinstance(properties, dict) else ())
        for keyword in ("allOf", "anyOf", "oneOf"):
            several = part.get(keyword)
            waiting += several[:_MAX_COMBINED] if isinstance(several, list) else []
    return names


def _decoded(arguments: str) -> Any:
    """The JSON in a string of arguments; the string itself where it holds none."""
    if not arguments.strip():
        return None
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments


def _near(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known, most=1)
    return f"; did you mean {shown_name(cut(near[0], NAME_LEN))}?" if near else ""


def _refusal(tool: ToolInfo, problems: dict[str, str]) -> CallError:
    """The error for members of a call, by their names."""
    return invalid_arguments(
        tool, [Problem(f"$.{one_line(name)}", problems[name]) for name in sorted(problems)]
    )

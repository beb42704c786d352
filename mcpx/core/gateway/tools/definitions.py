"""The tools of MCPX as the protocol shows them: names, schemas, annotations, parameters, and failures. Pure.

The descriptions are generated from the catalogues (`mcpx.core.rendering.descriptions`). Parameters are read
as models write them: a name that is null or empty counts as not given, and members that a host adds are
skipped. The fast path takes only calls that need no such reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.config import ArgumentsForm
from mcpx.core.policy.server_questions import URL_REQUIRED, with_safe_links
from mcpx.core.rendering.descriptions import Descriptions
from mcpx.core.rendering.results import ToolResult, members_of
from mcpx.core.text import cut, kind_of, one_line, shown_name
from mcpx.core.text.nearest import nearest
from mcpx.core.validation.errors import Problem, invalid_arguments
from mcpx.errors import NAME_LEN, CallError, failure_text

INSPECT: Final = "inspect"
EXEC: Final = "exec"
RESOURCES: Final = "resources"
QUERY: Final = "query"
"""Runs read-only tools alone, as exec does any; shown to the clients that `tiers` says."""
NAMES: Final = (INSPECT, EXEC, RESOURCES)
_WITH_QUERY: Final = (INSPECT, QUERY, EXEC, RESOURCES)
ERROR_KEY: Final = "mcpx/error"
"""The member of `_meta` with the error of a call that may have no structured content."""

_NAME: Final = {"type": "string"}
_TOOLS: Final = {"type": "string", "description": "One, or several with commas"}
_QUERY: Final = {"type": "string", "description": "What to do, in a few words"}
_URI: Final = {"type": "string", "description": "Without it, the resources are listed"}
_ARGUMENTS: Final[Mapping[ArgumentsForm, JSON]] = {
    "object": {"type": "object", "description": "The tool's own parameters"},
    "string": {"type": "string", "description": 'The tool\'s own parameters, as JSON: {"path": "/tmp"}'},
}
"""Without `additionalProperties`, at which google-genai's own MCP support fails, and without `anyOf` or
several types, which not every converter takes."""
_SELECT: Final = {
    "type": "string",
    "description": "JMESPath: the part of a JSON result to return, as items[].{id: id, title: title}",
}
_OF_RESULT: Final = "Of the result; the rest can be read afterwards"
_MAX_TOKENS: Final[Mapping[ArgumentsForm, JSON]] = {
    "object": {"type": "integer", "description": _OF_RESULT},
    "string": {"type": "string", "description": f"A number. {_OF_RESULT}"},
}
"""A strict schema makes every parameter required; then "" says that it is not given, and no number does."""
_FRESH: Final = {"type": "boolean", "description": "Ask the server, not the cache"}


def _schema(required: list[str], **properties: JSON) -> JSON:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _schemas(form: ArgumentsForm, **more: JSON) -> dict[str, JSON]:
    run = _schema(
        ["server_name", "tool_name"],
        server_name=_NAME,
        tool_name=_NAME,
        arguments=_ARGUMENTS[form],
        select=_SELECT,
        max_tokens=_MAX_TOKENS[form],
        **more,
    )
    return {
        INSPECT: _schema([], server_name=_NAME, tool_name=_TOOLS, query=_QUERY),
        QUERY: run,
        EXEC: run,
        RESOURCES: _schema(["server_name"], server_name=_NAME, uri=_URI),
    }


SCHEMAS: Final = _schemas("object")
_FORMS: Final[Mapping[tuple[ArgumentsForm, bool], dict[str, JSON]]] = {
    ("object", False): SCHEMAS,
    ("string", False): _schemas("string"),
    ("object", True): _schemas("object", fresh=_FRESH),
    ("string", True): _schemas("string", fresh=_FRESH),
}
"""By the form of `arguments`, and whether results are kept that a call may pass by."""


def names(*, query: bool) -> tuple[str, ...]:
    """The names of the tools that MCPX itself has, for a client with or without query."""
    return _WITH_QUERY if query else NAMES


def tools(descriptions: Descriptions) -> list[JSON]:
    """MCPX's own tools as a list of tools has them, annotated truthfully for a host's approval rules.

    Reading a resource counts as open-world: a template such as `fetch://{url}` reaches the network. Without
    `anthropic/alwaysLoad` Claude Code defers tools until a search of its own finds them.
    """
    knowing = {"readOnlyHint": True, "openWorldHint": False}
    reading = {"readOnlyHint": True, "openWorldHint": True}
    querying = {
        "readOnlyHint": True,
        "destructiveHint": False,
        "openWorldHint": descriptions.query_open_world,
    }
    acting = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
    loaded = {"anthropic/alwaysLoad": True}
    found = loaded | {"anthropic/searchHint": descriptions.search_hint}
    described = (
        (INSPECT, "Inspect servers and tools", descriptions.inspect, knowing, found),
        (QUERY, "Run a read-only tool", descriptions.query, querying, loaded),
        (EXEC, "Run a tool", descriptions.exec, acting, loaded),
        (RESOURCES, "Read a resource", descriptions.resources, reading, None),
    )
    lists = {INSPECT: ("server_name", descriptions.server_name), RESOURCES: ("uri", descriptions.uri)}
    schemas = _FORMS[descriptions.arguments, descriptions.fresh]
    return [
        {
            "name": name,
            "title": title,
            "description": text,
            "inputSchema": _with_list(schemas[name], *lists[name]) if name in lists else schemas[name],
            "annotations": annotations,
            **({"_meta": meta} if meta else {}),
        }
        for name, title, text, annotations, meta in described
        if text
    ]


def _with_list(schema: JSON, parameter: str, text: str) -> JSON:
    """The schema with a list in the description of a parameter, if there is one."""
    if not text:
        return schema
    given = schema["properties"][parameter]
    described = given | {"description": "\n".join(filter(None, (given.get("description"), text)))}
    return schema | {"properties": schema["properties"] | {parameter: described}}


# --- parameters, as a client sent them: plain, or with the usual slips

_ADDED_BY_HOSTS: Final = frozenset({"action", "chatInput", "sessionId", "tool", "toolCallId"})
"""Members that n8n adds to the arguments of every call (its issues 21500 and 22787)."""
_PASSED_ON: Final = frozenset({"wait_for_previous"})
"""Members that Gemini CLI adds to every schema, for itself, and sends with the call."""
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
    fresh: bool
    others: JSON


def read_exec(given: JSON, *, with_fresh: bool = False) -> ExecParameters:
    """The parameters of a call of exec, which takes `fresh` where results are kept.

    Raises:
        WrongParameter: One is of the wrong type.
    """
    used = (short for name, short in _SHORT.items() if given.get(name) is None)
    own = _FORMS["object", with_fresh][EXEC]["properties"]
    taken = {*own, *(_ADDED_BY_HOSTS if _comes_with_more(given) else used)}
    return ExecParameters(
        server_name=text(given, "server_name"),
        tool_name=text(given, "tool_name"),
        arguments=given.get("arguments"),
        select=text(given, "select") or None,
        max_tokens=_max_tokens(given.get("max_tokens")),
        fresh=with_fresh and _flag(given, "fresh"),
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


def _flag(given: JSON, name: str) -> bool:
    value = given.get(name)
    if isinstance(value, str):
        value = {"true": True, "false": False, "": None}.get(value.strip().lower(), value)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise WrongParameter(f"{name} must be true or false, got {kind_of(value)}")


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
    others = {name: value for name, value in given.others.items() if name in known or name not in _PASSED_ON}
    if not others:
        return given.arguments
    if strange := others.keys() - known:
        raise _refusal(
            tool, {name: f"is no parameter of exec or of this tool{_near(name, known)}" for name in strange}
        )
    arguments = given.arguments
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    if arguments is None:
        return others
    if not isinstance(arguments, dict):
        return given.arguments  # it is refused for that
    twice = {name for name in others.keys() & arguments if arguments[name] != others[name]}
    if twice:
        raise _refusal(tool, dict.fromkeys(twice, "is given twice, beside `arguments` and in it"))
    return {**others, **arguments}


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


# --- failures


def failure(error: CallError, *, structured: bool) -> JSON:
    """An error as a result: one readable text with code and outcome, and the same for programs."""
    shaped = ToolResult(content=_explained(error), structured_content=_as_details(error), is_error=True)
    return members_of(shaped, structured=structured)


def failure_in_meta(error: CallError) -> JSON:
    """The same for a native tool whose results have a schema, which official clients hold errors against."""
    shaped = ToolResult(content=_explained(error), is_error=True, meta={ERROR_KEY: _as_details(error)})
    return members_of(shaped, structured=False)


def _as_details(error: CallError) -> JSON:
    """An error for programs, with no link of its server that a person may not be given."""
    details = error.to_dict()
    said = details.get("upstream")
    if isinstance(said, dict) and said.get("code") == URL_REQUIRED and "data" in said:
        details["upstream"] = said | {"data": with_safe_links(said["data"], error.server)}
    return details


def _explained(error: CallError) -> list[JSON]:
    return [{"type": "text", "text": failure_text(str(error), error.code, error.outcome)}]


def wrong_parameters(tool: str, problem: str, *, structured: bool) -> JSON:
    """The result for a call whose own parameters are wrong, those of one of MCPX's own tools."""
    required = SCHEMAS[tool].get("required", [])
    optional = ", ".join(name for name in SCHEMAS[tool]["properties"] if name not in required)
    takes = " and ".join([*([", ".join(required)] if required else []), f"optionally {optional}"])
    text = f"{problem}. {tool} takes {takes}"
    body = {"error": text, "code": "invalid_arguments", "outcome": "not_sent", "tool": tool}
    return members_of(
        ToolResult(content=[{"type": "text", "text": text}], structured_content=body, is_error=True),
        structured=structured,
    )

"""Errors about arguments that a model can act on, and the words of a command line as arguments. Pure.

`Check` is the job of a worker that finds them, `Verdict` its result, both as MessagePack.

An error says where something is wrong, and what was expected. Its size is bounded for any schema and
arguments: `MAX_PROBLEMS` of a line each, and a schema cut short.

`key=value` words get the types that the tool's schema wants: `count=12` is a number where it wants one and
text where it wants text. A key that is given several times is a list, `a.b=1` a member of an object, if the
schema has no parameter of that name. Where the schema says nothing of a value, it is JSON if it can be, else
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.rendering.typescript import SchemaConverter, outweighs
from mcpx.core.text import kind_of, shown_name
from mcpx.core.text.nearest import nearest
from mcpx.core.validation.bounds import why_too_large
from mcpx.core.validation.respelling import kinds_at, respelled, unquoted
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
    """A mistake at one place; `path` is such as `$.files[0].name`."""

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


Pair = tuple[str, str]
_OPEN: Final = ("additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf")
"""Keywords with which a schema may have parameters that `properties` does not name."""


def arguments_of(pairs: Sequence[Pair], schema: JSON) -> JSON:
    """The arguments that the words spell; what does not fit the schema stays as it is."""
    named = _names(schema)
    given: dict[tuple[str, ...], list[str]] = {}
    for key, text in pairs:
        given.setdefault(_path(key, named), []).append(text)
    arguments: JSON = {}
    for path, texts in given.items():
        _put(arguments, path, _value(texts, kinds_at(schema, path)))
    typed: JSON = respelled(schema, arguments)
    return typed


def misspelt(keys: Iterable[str], schema: JSON) -> list[Problem]:
    """A problem for each key that the schema does not have, if there is one that it was meant to be."""
    named = _names(schema)
    if any(schema.get(keyword, False) is not False for keyword in _OPEN):
        return []
    keys = list(keys)
    problems = []
    for key in dict.fromkeys(_path(key, named)[0] for key in keys):
        near = [] if key in named else nearest(key, [name for name in named if name not in keys])
        if near:
            problems.append(Problem(f"$.{key}", f"there is no such parameter; did you mean {near[0]}?"))
    return problems


def top_level(keys: Iterable[str], schema: JSON) -> set[str]:
    """The parameters that the keys set, whole or in part."""
    named = _names(schema)
    return {_path(key, named)[0] for key in keys}


def _names(schema: JSON) -> list[str]:
    named = schema.get("properties")
    return list(named) if isinstance(named, dict) else []


def _path(key: str, named: list[str]) -> tuple[str, ...]:
    """Return where the value of a key goes: `a.b` into `a`, if that is a parameter and `a.b` is none."""
    parts = tuple(key.split("."))
    return parts if key not in named and parts[0] in named and all(parts) else (key,)


def _put(arguments: JSON, path: tuple[str, ...], value: Any) -> None:
    *outer, last = path
    for name in outer:
        inner = arguments.get(name)
        if not isinstance(inner, dict):
            inner = arguments[name] = {}
        arguments = inner
    arguments[last] = value


def _value(texts: list[str], kinds: set[str]) -> Any:
    """The value of a key that was given these texts, where the schema wants a value of one of these kinds."""
    if len(texts) > 1:
        return texts if kinds else [unquoted(text) for text in texts]
    (text,) = texts
    if not kinds:
        return unquoted(text)
    if "array" in kinds and "string" not in kinds and not isinstance(unquoted(text), list):
        return [text]
    return text


DEADLINE_S: Final = 0.5  # for one check; then the call goes out unchecked: the server checks too


class Check(msgspec.Struct, frozen=True, array_like=True):
    """Check `arguments` (JSON as it came) against `schema` (JSON); None for a look at the schema alone."""

    schema: bytes
    arguments: bytes | None


class Verdict(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The result of a job. Without problems, the arguments, or the schema, are good."""

    problems: list[Problem] = []
    schema: str = ""
    """With problems, what the tool takes, as a type."""
    unusable: str | None = None
    """Why nothing can be checked with this schema."""
    respelled: bytes = b""
    """The arguments to send in place of those that came, where these fit only with other types."""


encode_check = msgspec.msgpack.Encoder().encode
decode_check = msgspec.msgpack.Decoder(Check).decode
encode_verdict = msgspec.msgpack.Encoder().encode
decode_verdict = msgspec.msgpack.Decoder(Verdict).decode

"""Arguments of a call against the tool's JSON Schema, before anything is sent.

Compiling a validator costs about sixty validations, so that compiled ones are kept, one for each tool as it
was last listed. They always get an empty registry: jsonschema's own would fetch a remote `$ref` over the
network. A schema that cannot be compiled or resolved checks nothing (the upstream will), and is logged once.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

import msgspec
import structlog
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from mcpx.catalog.model import JSON, ToolInfo
from mcpx.errors import CallError, Code
from mcpx.quick_check import Check, quick_check
from mcpx.schema_ts import SchemaConverter

log = structlog.get_logger()
NOTHING_REMOTE: Final[Registry[Any]] = Registry()
SHOWN: Final = 10  # problems in one message; a model mends a few at a time
BRIEF: Final = 200  # characters of one problem


def read_raw_arguments(raw: msgspec.Raw | bytes, tool: ToolInfo) -> tuple[JSON, bytes | msgspec.Raw]:
    """The arguments as an object, and as the JSON to send: the very bytes that came, where they can be.

    Raises:
        CallError: `invalid_arguments`; they are something else.
    """
    if not raw:
        return {}, b"{}"
    value = msgspec.json.decode(raw)
    if isinstance(value, dict):
        return value, raw
    checked = read_arguments(value, tool)
    return checked, msgspec.json.encode(checked)


def read_arguments(arguments: Any, tool: ToolInfo) -> JSON:
    """The arguments as an object: as given, out of the JSON string that holds it, or empty for none.

    Raises:
        CallError: `invalid_arguments`; they are something else.
    """
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
        except msgspec.DecodeError as error:
            problem = f"expected an object, got a string that is not JSON ({error})"
            raise _invalid(tool, [_Problem("$", problem)]) from None
    if not isinstance(arguments, dict):
        raise _invalid(tool, [_Problem("$", f"expected an object, got {_kind(arguments)}")])
    return arguments


class ArgumentChecker:
    """Checks arguments; keeps the compiled validators."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[str, str], _Compiled] = {}

    def check(self, tool: ToolInfo, arguments: JSON) -> None:
        """Raises CallError `invalid_arguments` with every offending path and the schema; nothing was sent."""
        compiled = self._compiled.get((tool.server_name, tool.name))
        if compiled is None or compiled.tool is not tool:
            compiled = self._compile(tool)
        if compiled.quick is not None and compiled.quick(arguments):
            return
        validator = compiled.validator
        if validator is None:
            return
        try:
            errors = list(islice(validator.iter_errors(arguments), SHOWN))
        except Unresolvable as error:  # only now, for references are followed lazily
            self._give_up(tool, error)
            return
        if errors:
            problems = [problem for error in errors for problem in _problems(error)]
            raise _invalid(tool, problems[:SHOWN])

    def _compile(self, tool: ToolInfo) -> _Compiled:
        kind = validator_for(tool.input_schema, default=Draft202012Validator)
        try:
            kind.check_schema(tool.input_schema)
        except SchemaError as error:
            return self._give_up(tool, error)
        validator = kind(tool.input_schema, registry=NOTHING_REMOTE)
        return self._keep(_Compiled(tool, quick_check(tool.input_schema), validator))

    def _give_up(self, tool: ToolInfo, error: Exception) -> _Compiled:
        reason = str(error).splitlines()[0]
        log.warning("arguments.unchecked", server=tool.server_name, tool=tool.name, reason=reason)
        return self._keep(_Compiled(tool, None, None))

    def _keep(self, compiled: _Compiled) -> _Compiled:
        self._compiled[compiled.tool.server_name, compiled.tool.name] = compiled
        return compiled


class _Compiled(msgspec.Struct, frozen=True):
    """A tool's schema, ready for use; nothing in it where the schema cannot be used."""

    tool: ToolInfo
    quick: Check | None
    validator: Validator | None


class _Problem(msgspec.Struct, frozen=True):
    path: str
    problem: str


def _problems(error: ValidationError) -> Iterator[_Problem]:
    """One jsonschema error as what a model can act on: where, and what was expected there."""
    path = error.json_path
    value: Any = error.instance
    rule: Any = error.validator_value
    match error.validator:
        case "type":
            yield _Problem(path, f"expected {_either(rule)}, got {_kind(value)}")
        case "required":
            missing = [name for name in rule if name not in value]
            named = [name for name in missing if error.message.startswith(repr(name))] or missing
            for name in named:
                yield _Problem(f"{path}.{name}", f"is missing; expected {_expected(error.schema, name)}")
        case "additionalProperties" if isinstance(value, dict) and isinstance(error.schema, dict):
            known = error.schema.get("properties", {})
            for name in value:
                if name not in known:
                    yield _Problem(f"{path}.{name}", f"is not known here{_did_you_mean(name, known)}")
        case "enum":
            allowed = ", ".join(msgspec.json.encode(option).decode() for option in rule)
            yield _Problem(path, f"expected one of {allowed}, got {_shown(value)}")
        case "anyOf" | "oneOf":
            yield _Problem(path, f"{_shown(value)} fits none of the allowed forms")
        case _:
            yield _Problem(path, _brief(error.message))


def _expected(schema: Any, name: str) -> str:
    child = schema.get("properties", {}).get(name) if isinstance(schema, dict) else None
    return SchemaConverter.convert(child, max_description_len=80) if child is not None else "a value"


def _did_you_mean(name: str, known: JSON) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known) or 'none'}"


def _either(kinds: Any) -> str:
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {_shown(value)}"
        case list():
            return "an array"
        case _:
            return "an object"


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - a line's worth


def _brief(message: str) -> str:
    """The message of jsonschema, which repeats the value whole, without its middle."""
    return message if len(message) <= BRIEF else f"{message[: BRIEF // 2]} ... {message[-BRIEF // 2 :]}"


def _invalid(tool: ToolInfo, problems: list[_Problem]) -> CallError:
    schema = SchemaConverter.convert(tool.input_schema)
    lines = "\n".join(f"- {problem.path}: {problem.problem}" for problem in problems)
    name = f"{tool.server_name}.{tool.name}"
    text = f"Invalid arguments for {name}; nothing was sent.\n{lines}\nIt takes: {schema}"
    details = {"problems": [{"path": p.path, "problem": p.problem} for p in problems], "schema": schema}
    return CallError(Code.INVALID_ARGUMENTS, text, server=tool.server_name, tool=tool.name, details=details)

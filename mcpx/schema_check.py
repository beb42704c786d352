"""The complete check of arguments, by jsonschema, and its errors in words.

Imported when it is first needed: most arguments get a quick yes (`mcpx.quick_check`), and jsonschema costs an
idle MCPX 3 MB. Compiling a validator costs about sixty validations, so a `SchemaCheck` is kept for as long as
its tool is listed. It always has an empty registry: jsonschema's own would fetch a remote `$ref` over the
network.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from mcpx.catalog.model import JSON
from mcpx.problems import Problem, kind_of, shown
from mcpx.schema_ts import SchemaConverter

NOTHING_REMOTE: Final[Registry[Any]] = Registry()
MOST: Final = 10  # problems in one message; a model mends a few at a time
BRIEF: Final = 200  # characters of one problem


class UnusableSchema(Exception):  # noqa: N818 - a condition
    """The schema is none, or refers to what cannot be found here."""


class SchemaCheck:
    """A compiled schema. Raises UnusableSchema where there is none to compile."""

    def __init__(self, schema: JSON) -> None:
        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise UnusableSchema(_first_line(error)) from error
        self._validator = kind(schema, registry=NOTHING_REMOTE)

    def problems(self, arguments: JSON) -> list[Problem]:
        """What is wrong with `arguments`; empty for nothing.

        Raises:
            UnusableSchema: A reference cannot be followed, which shows only now.
        """
        try:
            errors = list(islice(self._validator.iter_errors(arguments), MOST))
        except Unresolvable as error:
            raise UnusableSchema(_first_line(error)) from error
        return [problem for error in errors for problem in _problems(error)][:MOST]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _problems(error: ValidationError) -> Iterator[Problem]:
    """One jsonschema error as what a model can act on: where, and what was expected there."""
    path = error.json_path
    value: Any = error.instance
    rule: Any = error.validator_value
    match error.validator:
        case "type":
            yield Problem(path, f"expected {_either(rule)}, got {kind_of(value)}")
        case "required":
            missing = [name for name in rule if name not in value]
            named = [name for name in missing if error.message.startswith(repr(name))] or missing
            for name in named:
                yield Problem(f"{path}.{name}", f"is missing; expected {_expected(error.schema, name)}")
        case "additionalProperties" if isinstance(value, dict) and isinstance(error.schema, dict):
            known = error.schema.get("properties", {})
            for name in value:
                if name not in known:
                    yield Problem(f"{path}.{name}", f"is not known here{_did_you_mean(name, known)}")
        case "enum":
            allowed = ", ".join(msgspec.json.encode(option).decode() for option in rule)
            yield Problem(path, f"expected one of {allowed}, got {shown(value)}")
        case "anyOf" | "oneOf":
            yield Problem(path, f"{shown(value)} fits none of the allowed forms")
        case _:
            yield Problem(path, _brief(error.message))


def _expected(schema: Any, name: str) -> str:
    child = schema.get("properties", {}).get(name) if isinstance(schema, dict) else None
    return SchemaConverter.convert(child, max_description_len=80) if child is not None else "a value"


def _did_you_mean(name: str, known: JSON) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known) or 'none'}"


def _either(kinds: Any) -> str:
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


def _brief(message: str) -> str:
    """The message of jsonschema, which repeats the value whole, without its middle."""
    return message if len(message) <= BRIEF else f"{message[: BRIEF // 2]} ... {message[-BRIEF // 2 :]}"

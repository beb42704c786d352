"""The complete check of arguments, by jsonschema, and its errors in words. Runs in a worker process only.

jsonschema has no bound: patterns that backtrack, branches that double, items compared each with each. So
nothing here is called on the event loop (`mcpx.validation.worker` calls it, and is ended when it takes too
long). Compiling a validator costs about sixty validations, so a `SchemaCheck` is kept. It always has an empty
registry: jsonschema's own would fetch a remote `$ref` over the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from mcpx.catalog.model import JSON
from mcpx.nearest import LETTERS_COMPARED, nearest
from mcpx.rendering.typescript import SchemaConverter
from mcpx.validation.circles import reference_at_fault
from mcpx.validation.errors import MAX_PROBLEMS, Problem, cut_middle, described, shown

NOTHING_REMOTE: Final[Registry[Any]] = Registry()
BRIEF: Final = 200  # characters of one problem, and of a reason
OPTIONS: Final = 20  # of an enumeration that are named, and of the names that are known


class UnusableSchema(Exception):  # noqa: N818 - a condition
    """The schema is none, refers to what cannot be found here, or to itself without end."""


class SchemaCheck:
    """A compiled schema. Raises UnusableSchema where there is none to compile."""

    def __init__(self, schema: JSON) -> None:
        try:
            kind = validator_for(schema, default=Draft202012Validator)
            kind.check_schema(schema)
            fault = reference_at_fault(schema)
        except SchemaError as error:
            at = error.json_path
            raise UnusableSchema(cut_middle(f"at {at}: {_first_line(error)}", BRIEF)) from error
        except Exception as error:  # what a keyword of an unheard-of kind makes jsonschema raise
            raise UnusableSchema(
                cut_middle(f"{type(error).__name__}: {_first_line(error)}", BRIEF)
            ) from error
        if fault is not None:
            raise UnusableSchema(cut_middle(fault, BRIEF))
        self._validator = kind(schema, registry=NOTHING_REMOTE)

    def problems(self, arguments: JSON) -> list[Problem]:
        """What is wrong with `arguments`; empty for nothing.

        Raises:
            UnusableSchema: It cannot be checked with, which shows only now.
        """
        try:
            errors = list(islice(self._validator.iter_errors(arguments), MAX_PROBLEMS))
            return [problem for error in errors for problem in _problems(error)][:MAX_PROBLEMS]
        except Unresolvable as error:
            raise UnusableSchema(cut_middle(_first_line(error), BRIEF)) from error
        except Exception as error:  # as above; RecursionError among them
            raise UnusableSchema(
                cut_middle(f"{type(error).__name__}: {_first_line(error)}", BRIEF)
            ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _problems(error: ValidationError) -> Iterator[Problem]:
    """One jsonschema error as what a model can act on: where, and what was expected there."""
    path = error.json_path
    value: Any = error.instance
    rule: Any = error.validator_value
    match error.validator:
        case "type":
            yield Problem(path, f"expected {_either(rule)}, got {described(value)}")
        case "required":
            missing = [name for name in rule if name not in value]
            named = [name for name in missing if error.message.startswith(repr(name))] or missing
            for name in named[:MAX_PROBLEMS]:
                yield Problem(f"{path}.{name}", f"is missing; expected {_expected(error.schema, name)}")
        case "additionalProperties" if isinstance(value, dict) and isinstance(error.schema, dict):
            known = error.schema.get("properties", {})
            for name in islice((name for name in value if name not in known), MAX_PROBLEMS):
                yield Problem(f"{path}.{name}", f"is not known here{_did_you_mean(name, known)}")
        case "enum":
            allowed = [shown(option) for option in rule[:OPTIONS]]
            yield Problem(path, f"expected one of {_listed(allowed, len(rule))}, got {shown(value)}")
        case "anyOf" | "oneOf":
            yield Problem(path, f"{shown(value)} fits none of the allowed forms")
        case _:
            yield Problem(path, cut_middle(error.message, BRIEF))


def _expected(schema: Any, name: str) -> str:
    child = schema.get("properties", {}).get(name) if isinstance(schema, dict) else None
    return SchemaConverter.convert(child, max_description_len=80) if child is not None else "a value"


def _did_you_mean(name: str, known: JSON) -> str:
    if near := nearest(name, known, most=1):
        return f"; did you mean {cut_middle(near[0], LETTERS_COMPARED)}?"
    named = [cut_middle(each, LETTERS_COMPARED) for each in islice(known, OPTIONS)]
    return f"; known are {_listed(named, len(known)) or 'none'}"


def _listed(shown: list[str], total: int) -> str:
    more = [f"... ({total} in all)"] if total > len(shown) else []
    return ", ".join([*shown, *more])


def _either(kinds: Any) -> str:
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)

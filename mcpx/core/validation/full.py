"""The complete check of arguments, by jsonschema, and its errors in words. Runs in a worker process only.

jsonschema's time is unbounded: patterns that backtrack, branches that double, items compared pairwise. So
nothing here is called on the event loop: `mcpx.core.validation.worker` calls it, and is killed when it takes
too long. Compiling a validator costs about sixty validations, so a `SchemaCheck` is kept. It always has an
empty registry: jsonschema's own would fetch a remote `$ref` over the network.
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

from mcpx.core.catalog.model import JSON
from mcpx.core.rendering.typescript import SchemaConverter
from mcpx.core.text.nearest import LETTERS_COMPARED, nearest
from mcpx.core.validation.circles import bad_reference
from mcpx.core.validation.errors import MAX_PROBLEMS, Problem, brief, cut_middle, describe_value

NOTHING_REMOTE: Final[Registry[Any]] = Registry()
MAX_REASON_CHARS: Final = 200
MAX_OPTIONS: Final = 20  # of an enumeration, or of known names, in one problem


class UnusableSchema(Exception):
    """The schema is invalid, refers to what is not in it, or to itself without end."""


class SchemaCheck:
    """A compiled schema.

    Raises:
        UnusableSchema: It cannot be compiled.
    """

    def __init__(self, schema: JSON) -> None:
        try:
            kind = validator_for(schema, default=Draft202012Validator)
            kind.check_schema(schema)
            fault = bad_reference(schema)
        except SchemaError as error:
            at = error.json_path
            raise _unusable(f"at {at}: {_first_line(error)}") from error
        except Exception as error:  # what a malformed keyword makes jsonschema raise
            raise _unusable(f"{type(error).__name__}: {_first_line(error)}") from error
        if fault is not None:
            raise _unusable(fault)
        self._validator = kind(schema, registry=NOTHING_REMOTE)

    def problems(self, arguments: JSON) -> list[Problem]:
        """Return what is wrong with `arguments`.

        Raises:
            UnusableSchema: The schema cannot be used, which shows only now.
        """
        try:
            errors = list(islice(self._validator.iter_errors(arguments), MAX_PROBLEMS))
            return [problem for error in errors for problem in _problems(error)][:MAX_PROBLEMS]
        except Unresolvable as error:
            raise _unusable(_first_line(error)) from error
        except Exception as error:  # as above; RecursionError among them
            raise _unusable(f"{type(error).__name__}: {_first_line(error)}") from error


def _unusable(reason: str) -> UnusableSchema:
    return UnusableSchema(cut_middle(reason, MAX_REASON_CHARS))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _problems(error: ValidationError) -> Iterator[Problem]:
    """Translate one jsonschema error."""
    path = error.json_path
    value: Any = error.instance
    rule: Any = error.validator_value
    match error.validator:
        case "type":
            yield Problem(path, f"expected {_either(rule)}, got {describe_value(value)}")
        case "required":
            missing = [name for name in rule if name not in value]
            named = [name for name in missing if error.message.startswith(repr(name))] or missing
            for name in named[:MAX_PROBLEMS]:
                expected = _expected(error.schema, name)
                yield Problem(f"{path}.{name}", f"is missing; expected {expected}{_instead(name, error)}")
        case "additionalProperties" if isinstance(value, dict) and isinstance(error.schema, dict):
            known = error.schema.get("properties", {})
            for name in islice((name for name in value if name not in known), MAX_PROBLEMS):
                yield Problem(f"{path}.{name}", f"is not known here{_did_you_mean(name, known)}")
        case "enum":
            allowed = [brief(option) for option in rule[:MAX_OPTIONS]]
            yield Problem(path, f"expected one of {_listed(allowed, len(rule))}, got {brief(value)}")
        case "anyOf" | "oneOf":
            yield Problem(path, f"{brief(value)} fits none of the allowed forms")
        case _:
            yield Problem(path, cut_middle(error.message, MAX_REASON_CHARS))


def _expected(schema: Any, name: str) -> str:
    child = schema.get("properties", {}).get(name) if isinstance(schema, dict) else None
    return SchemaConverter.convert(child, max_description_len=80) if child is not None else "a value"


def _instead(name: str, error: ValidationError) -> str:
    """The unknown name that was likely given in the place of a missing one."""
    known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    given: Any = error.instance
    strange = [other for other in given if other not in known]
    near = nearest(name, strange, most=1)
    return f"; is {cut_middle(near[0], LETTERS_COMPARED)} meant for it?" if near else ""


def _did_you_mean(name: str, known: JSON) -> str:
    if near := nearest(name, known, most=1):
        return f"; did you mean {cut_middle(near[0], LETTERS_COMPARED)}?"
    named = [cut_middle(each, LETTERS_COMPARED) for each in islice(known, MAX_OPTIONS)]
    return f"; known are {_listed(named, len(known)) or 'none'}"


def _listed(shown: list[str], total: int) -> str:
    more = [f"... ({total} in all)"] if total > len(shown) else []
    return ", ".join([*shown, *more])


def _either(kinds: Any) -> str:
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)

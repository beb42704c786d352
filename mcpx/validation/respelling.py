"""Arguments whose strings spell what the schema wants: `"5"` for 5, `"true"` for true, `"[1]"` for [1].

Runs in a worker process only, on arguments that do not fit: what jsonschema finds wrong says where another
type is wanted. There a string is taken as the JSON that it holds. Nothing else is changed, and only where the
whole fits then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from jsonschema.exceptions import ValidationError

from mcpx.validation.full import SchemaCheck

MAX_ROUNDS: Final = 4  # values inside strings inside strings
MAX_ERRORS: Final = 5_000  # looked at in a round
_PYTHON_WORDS: Final = {"True": True, "TRUE": True, "False": False, "FALSE": False, "None": None}
_NOTHING: Final = object()

Path = tuple[str | int, ...]


def respelled(check: SchemaCheck, arguments: bytes) -> bytes | None:
    """The arguments with the types that the schema wants; None if that does not make them fit.

    Raises:
        UnusableSchema: As `SchemaCheck.problems`.
    """
    value = msgspec.json.decode(arguments)
    for _ in range(MAX_ROUNDS):
        errors = list(islice(check.errors(value), MAX_ERRORS))
        if not errors:
            return msgspec.json.encode(value)
        changed: set[Path] = set()
        for error in errors:
            for path, wanted in _wanted(error):
                if path and path not in changed and _respell(value, path, wanted):
                    changed.add(path)
        if not changed:
            return None
    return None


def _wanted(error: ValidationError) -> Iterator[tuple[Path, ValidationError]]:
    """The places where another type or one of a few values is wanted, with the error that says so."""
    if error.validator in {"anyOf", "oneOf"}:
        for inner in error.context or ():
            yield from _wanted(inner)
    elif error.validator in {"type", "enum", "const"}:
        yield tuple(error.absolute_path), error


def _respell(root: Any, path: Path, error: ValidationError) -> bool:
    """Put what is wanted into its place, if the string there spells it; whether it does."""
    parent = _at(root, path[:-1])
    text = parent[path[-1]]
    other = _read(text) if isinstance(text, str) else _NOTHING
    if other is _NOTHING:
        return False
    rule: Any = error.validator_value
    if error.validator == "type":
        kinds = rule if isinstance(rule, list) else [rule]
        if isinstance(other, float) and other.is_integer() and "number" not in kinds:
            other = int(other)
        fits = any(_is(other, kind) for kind in kinds)
    else:
        options = rule if error.validator == "enum" else [rule]
        fits = any(type(option) is type(other) and option == other for option in options)
    if fits:
        parent[path[-1]] = other
    return fits


def _read(text: str) -> Any:
    """What a string holds as JSON, or as Python writes it."""
    stripped = text.strip()
    if stripped in _PYTHON_WORDS:
        return _PYTHON_WORDS[stripped]
    try:
        value = msgspec.json.decode(stripped)
    except (msgspec.DecodeError, RecursionError):
        return _NOTHING
    return _NOTHING if isinstance(value, str) else value


def _at(root: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        root = root[key]
    return root


def _is(value: Any, kind: Any) -> bool:
    match kind:
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    return False

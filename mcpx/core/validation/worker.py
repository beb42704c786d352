"""The complete check of arguments, by jsonschema, and its errors in words. Runs in a worker process only.

jsonschema's time is unbounded: patterns that backtrack, branches that double, items compared pairwise. So
nothing here is called on the event loop: the worker (`mcpx.core.wire.workers`) is killed when it takes too
long. Compiling a validator costs about sixty validations, so a `SchemaCheck` is kept. It always has an empty
registry: jsonschema's own would fetch a remote `$ref` over the network.

A reference that leads nowhere or in a circle is found before (`bad_reference`). A schema may refer to itself
below a member or an item: each round takes a level of the arguments. One that refers to itself in place
(`{"$ref": "#"}`, two definitions that name each other) would be checked for ever. Only what can be reached
from the root counts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from time import monotonic
from typing import Any, Final

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import validator_for
from referencing import Registry, exceptions

from mcpx.core.catalog.model import JSON
from mcpx.core.rendering.typescript import SchemaConverter
from mcpx.core.rendering.typescript.refs import References, Unresolvable
from mcpx.core.text.nearest import LETTERS_COMPARED, nearest
from mcpx.core.validation.bounds import MAX_INLINE_BYTES
from mcpx.core.validation.errors import (
    DEADLINE_S,
    MAX_PROBLEMS,
    Check,
    Problem,
    Verdict,
    brief,
    cut_middle,
    decode_check,
    describe_value,
    encode_verdict,
    schema_text,
)
from mcpx.core.validation.fast import FastCheck, fast_check
from mcpx.core.validation.respelling import respelled

_IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "extends", "disallow")
_BELOW: Final = (
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_MAPS_BELOW: Final = ("properties", "patternProperties")
_MAPS_IN_PLACE: Final = ("dependentSchemas", "dependencies")
_BASES: Final = ("$id", "id", "$anchor", "$dynamicAnchor")


def bad_reference(schema: Any) -> str | None:
    """Say what is wrong with the references; None if nothing is, or it is not known."""
    walk = _Walk(schema)
    pending: list[Any] = [schema]
    seen: set[int] = set()
    while pending:
        each = pending.pop()
        if not isinstance(each, dict) or id(each) in seen:
            continue
        seen.add(id(each))
        if each is not schema and any(isinstance(each.get(word), str) for word in _BASES):
            return None  # references have another base from here on, or names of their own
        try:
            pending += [*walk.in_place(each), *_below(each)]
        except Unresolvable as error:
            return f"the reference {error} leads nowhere here, and nothing is fetched"
    return walk.circle(schema)


class _Walk:
    def __init__(self, root: Any) -> None:
        self._references = References(root)
        self._root = root

    def in_place(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Yield the subschemas that apply to the same value.

        Raises:
            Unresolvable: A reference leads nowhere.
        """
        ref = schema.get("$ref")
        if isinstance(ref, str) and not self._is_name(ref):
            try:
                yield self._references.find(self._references.path(ref))
            except Unresolvable:
                raise Unresolvable(ref) from None
        for word in _IN_PLACE:
            inner = schema.get(word)
            yield from inner if isinstance(inner, list) else [inner]
        for word in _MAPS_IN_PLACE:
            if isinstance(inner := schema.get(word), dict):
                yield from inner.values()

    def _is_name(self, ref: str) -> bool:
        """True if it may be an anchor, or reach into a schema with a base of its own: jsonschema knows."""
        return (ref.startswith("#") and ref[1:2] not in {"", "/"}) or (
            not ref.startswith("#") and isinstance(self._root, dict) and bool(self._root.keys() & set(_BASES))
        )

    def circle(self, schema: Any) -> str | None:
        """Say whether some value would be checked for ever: search from each reachable subschema."""
        done: set[int] = set()
        starts: list[Any] = [schema]
        begun: set[int] = set()
        while starts:
            start = starts.pop()
            if not isinstance(start, dict) or id(start) in begun:
                continue
            begun.add(id(start))
            if self._circle_from(start, done):
                return "the schema refers to itself without end"
            starts += [*self.in_place(start), *_below(start)]
        return None

    def _circle_from(self, start: dict[str, Any], done: set[int]) -> bool:
        """Search depth first along what applies in place; `done` are subschemas without a circle."""
        path: set[int] = set()
        stack: list[tuple[dict[str, Any], Iterator[Any]]] = []

        def enter(each: dict[str, Any]) -> None:
            path.add(id(each))
            stack.append((each, self.in_place(each)))

        if id(start) not in done:
            enter(start)
        while stack:
            current, rest = stack[-1]
            following = next((each for each in rest if isinstance(each, dict) and id(each) not in done), None)
            if following is None:
                stack.pop()
                path.discard(id(current))
                done.add(id(current))
            elif id(following) in path:
                return True
            else:
                enter(following)
        return False


def _below(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield the subschemas that apply to members and items."""
    for word in _BELOW:
        inner = schema.get(word)
        yield from inner if isinstance(inner, list) else [inner]
    for word in _MAPS_BELOW:
        if isinstance(inner := schema.get(word), dict):
            yield from inner.values()


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
        except exceptions.Unresolvable as error:
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


MAX_SCHEMAS: Final = 128  # that stay compiled
MAX_CHECK_S: Final = DEADLINE_S / 4  # after which arguments are refused and not checked again in other types


class _Schema:
    """One schema, compiled as far as it was needed."""

    def __init__(self, encoded: bytes) -> None:
        self.schema = msgspec.json.decode(encoded)
        self.fast: FastCheck | None = fast_check(self.schema)
        self.unusable: str | None = None
        try:
            self._check = SchemaCheck(self.schema)
        except UnusableSchema as error:
            self.unusable = str(error)

    def judge(self, arguments: bytes | None) -> Verdict:
        """Return the verdict on arguments, or on the schema alone."""
        if self.unusable is not None or arguments is None:
            return Verdict(unusable=self.unusable)
        began = monotonic()
        problems = self._problems(arguments)
        if not problems:
            return Verdict()
        if len(arguments) <= MAX_INLINE_BYTES and monotonic() - began < MAX_CHECK_S:
            other = self._respelled(arguments)
            if other is not None:
                return Verdict(respelled=other)
        return Verdict(problems, schema_text(self.schema))

    def _respelled(self, arguments: bytes) -> bytes | None:
        """The arguments with other types, if they fit then."""
        value = msgspec.json.decode(arguments)
        other = respelled(self.schema, value)
        return None if other == value or self._check.problems(other) else msgspec.json.encode(other)

    def _problems(self, arguments: bytes) -> list[Problem]:
        try:
            value = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, RecursionError) as error:
            return [Problem("$", f"cannot be read: {error}")]
        if self.fast is not None and self.fast.accepts(value):
            return []
        return self._check.problems(value)


class Judge:
    """Answers jobs, and keeps compiled schemas."""

    def __init__(self) -> None:
        self._schemas: OrderedDict[bytes, _Schema] = OrderedDict()

    def judge(self, job: Check) -> Verdict:
        """Return the verdict. Never raises."""
        try:
            return self._schema(job.schema).judge(job.arguments)
        except UnusableSchema as error:
            return Verdict(unusable=str(error))
        except Exception as error:  # noqa: BLE001 - the boundary: what cannot be checked is not
            return Verdict(unusable=f"it cannot be checked ({type(error).__name__})")

    def _schema(self, encoded: bytes) -> _Schema:
        known = self._schemas.get(encoded)
        if known is None:
            known = self._schemas[encoded] = _Schema(encoded)
            if len(self._schemas) > MAX_SCHEMAS:
                self._schemas.popitem(last=False)
        self._schemas.move_to_end(encoded)
        return known


_judge = Judge()


def judge(job: memoryview) -> bytes:
    """The task of the worker: the verdict on an encoded job."""
    return encode_verdict(_judge.judge(decode_check(job)))

"""The `key=value` words of a command line as arguments, with the types that the tool's schema wants. Pure.

`count=12` is a number where the schema wants one and text where it wants text. A key that is given several
times is a list, `a.b=1` a member of an object, if the schema has no parameter of that name. Where the schema
says nothing of a value, it is JSON if it can be, else text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.text.nearest import nearest
from mcpx.core.validation.errors import Problem
from mcpx.core.validation.respelling import kinds_at, respelled

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
    """Where the value of a key goes: `a.b` into `a`, if that is a parameter and `a.b` is none."""
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
        return texts if kinds else [_guessed(text) for text in texts]
    (text,) = texts
    if not kinds:
        return _guessed(text)
    if "array" in kinds and "string" not in kinds and not isinstance(_guessed(text), list):
        return [text]
    return text


def _guessed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text

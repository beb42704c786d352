"""Arguments whose strings spell what the schema wants: `"5"` for 5, `"true"` for true, `"[1]"` for [1]. Pure.

Only for arguments that do not fit as they are. Where the schema takes no string, one that holds JSON of a
type that it takes becomes that value; nothing else is changed. Whether the whole fits then is for the caller
to check, and only if it does may it be sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from mcpx.core.rendering.mending import NOTHING
from mcpx.core.rendering.typescript.keywords import written_type_of
from mcpx.core.rendering.typescript.refs import References, Unresolvable

_MAX_DEPTH: Final = 32  # of values, and of schemas inside schemas that say the same value
_MAX_PARTS: Final = 50  # schemas that say one value
_PYTHON_WORDS: Final = {"True": True, "TRUE": True, "False": False, "FALSE": False, "None": None}


def respelled(schema: Any, arguments: Any) -> Any:
    """The arguments with the types that the schema wants, as far as their strings spell them."""
    try:
        return _Speller(schema).value(arguments, schema, 0)
    except Exception:  # noqa: BLE001 - a malformed schema: what it wants is not known
        return arguments


def as_given(schema: Any, arguments: Any) -> Any:
    """The arguments of a call that was written by a strict form of the schema: without null for what is left
    out, and with the values that strings spell where the schema has no type of its own.
    """
    try:
        return _Unfolder(schema).value(arguments, schema, 0)
    except Exception:  # noqa: BLE001 - as above
        return arguments


def kinds_at(schema: Any, path: Sequence[str]) -> set[str]:
    """The JSON types that the schema names for the value at a path of members; empty where it names none."""
    try:
        return _Speller(schema).kinds(path)
    except Exception:  # noqa: BLE001 - as above
        return set()


class _Speller:
    """Goes through values beside the schemas that say them. What it returns shares what is unchanged."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._references: References | None = None

    def value(self, value: Any, schema: Any, depth: int) -> Any:
        """One value, by its schema."""
        if depth > _MAX_DEPTH:
            return value
        parts = list(self._parts(schema))
        if isinstance(value, str):
            value = _spelled(value, parts)
        if isinstance(value, dict):
            return {name: self._member(name, each, parts, depth) for name, each in value.items()}
        if isinstance(value, list):
            items = next((part["items"] for part in parts if isinstance(part.get("items"), dict)), None)
            return value if items is None else [self.value(each, items, depth + 1) for each in value]
        return value

    def kinds(self, path: Sequence[str]) -> set[str]:
        """The types at a path of members."""
        parts = list(self._parts(self._root))
        for name in path:
            inner = [part["properties"][name] for part in parts if name in part.get("properties", {})]
            parts = [each for schema in inner for each in self._parts(schema)]
        values = [value for part in parts for value in (*part.get("enum", ()), *_const(part))]
        types = {kind for part in parts for kind in _named(part.get("type")) if kind is not None}
        return types | {written_type_of(value) for value in values}

    def _member(self, name: str, value: Any, parts: list[dict[str, Any]], depth: int) -> Any:
        for part in parts:
            if name in part.get("properties", {}):
                return self.value(value, part["properties"][name], depth + 1)
        for part in parts:
            if isinstance(part.get("additionalProperties"), dict):
                return self.value(value, part["additionalProperties"], depth + 1)
        return value

    def _parts(self, schema: Any) -> Iterator[dict[str, Any]]:
        """The schemas that say a value together, or one instead of the other."""
        waiting = [schema]
        for _ in range(_MAX_PARTS):
            if not waiting:
                return
            part = waiting.pop(0)
            if not isinstance(part, dict):
                continue
            yield part
            for keyword in ("allOf", "anyOf", "oneOf"):
                waiting += part.get(keyword, ())
            if "$ref" in part:
                waiting.append(self._referred(part["$ref"]))

    def _referred(self, reference: Any) -> Any:
        if self._references is None:
            self._references = References(self._root)
        try:
            return self._references.find(self._references.path(reference))
        except Unresolvable:
            return None


class _Unfolder(_Speller):
    """Takes back what a strict form has a model write."""

    def value(self, value: Any, schema: Any, depth: int) -> Any:
        """One value, by its schema."""
        if depth > _MAX_DEPTH:
            return value
        parts = list(self._parts(schema))
        if isinstance(value, str) and not any({"type", "enum", "const"} & part.keys() for part in parts):
            return unquoted(value)
        if isinstance(value, dict):
            value = {
                name: each
                for name, each in value.items()
                if each is not None or self._takes_null(name, parts, may_be_unused=depth == 0)
            }
        if isinstance(value, list) and not any(isinstance(part.get("items"), dict) for part in parts):
            value = [unquoted(each) if isinstance(each, str) else each for each in value]
        return super().value(value, schema, depth)

    def _takes_null(self, name: str, parts: list[dict[str, Any]], *, may_be_unused: bool) -> bool:
        schemas = [part["properties"][name] for part in parts if name in part.get("properties", {})]
        if not schemas:
            return not (may_be_unused and name == NOTHING)
        inner = [part for schema in schemas for part in self._parts(schema)]
        return any("null" in _named(part.get("type")) for part in inner)


def unquoted(text: str) -> Any:
    """Return what a string holds as JSON, which may be a string; the string itself where it holds nothing."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _spelled(text: str, parts: list[dict[str, Any]]) -> Any:
    """Return what the text holds, if that is wanted and a text is not."""
    kinds = {kind for part in parts for kind in _named(part.get("type"))}
    options = [option for part in parts for option in (*part.get("enum", ()), *_const(part))]
    other = _read(text)
    if options:
        same = [option for option in options if type(option) is type(other) and option == other]
        return text if text in options or not same else same[0]
    if "string" in kinds:
        return text
    if isinstance(other, float) and other.is_integer() and "number" not in kinds:
        other = int(other)
    kind = written_type_of(other)
    return other if kind in kinds or (kind == "integer" and "number" in kinds) else text


def _named(kinds: Any) -> list[Any]:
    return kinds if isinstance(kinds, list) else [kinds]


def _const(part: dict[str, Any]) -> list[Any]:
    return [part["const"]] if "const" in part else []


def _read(text: str) -> Any:
    """Return what a string holds as JSON, or as Python writes it; the string itself where it holds nothing
    else.
    """
    stripped = text.strip()
    if stripped in _PYTHON_WORDS:
        return _PYTHON_WORDS[stripped]
    try:
        value = msgspec.json.decode(stripped)
    except (msgspec.DecodeError, RecursionError):
        return text
    return text if isinstance(value, str) else value

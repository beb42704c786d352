"""A quick yes to arguments that a JSON Schema surely accepts, in time linear in their size: pure.

Most schemas are plain: objects of strings, numbers and lists, options, references without a circle. For such
a one this makes a function that is true only where jsonschema would find no error, at a tenth of its cost;
where it is false, or where a schema says more than is known here, jsonschema decides and explains. It can
therefore never let anything through, nor refuse anything: a property test holds the two against each other.

Its cost is bounded beforehand: a schema is written out to at most `MAX_PARTS` parts, and `weight` says how
many of them look at one value of the arguments at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mcpx.rendering.typescript.refs import References, Unresolvable
from mcpx.validation.bounds import INLINE

Check = Callable[[Any], bool]

MAX_PARTS: Final = 1000  # closures for one schema: 5 ms to make
VISITS: Final = 200_000  # of a value by a part, in one check: 30 ms
BYTES_A_VALUE: Final = 2  # of JSON, at least: `1,`
_BEYOND: Final = frozenset(
    [
        "$anchor",
        "$dynamicAnchor",
        "$dynamicRef",
        "$id",
        "$recursiveAnchor",
        "$recursiveRef",
        "additionalItems",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "disallow",
        "divisibleBy",
        "else",
        "extends",
        "id",
        "if",
        "maxContains",
        "minContains",
        "multipleOf",
        "not",
        "pattern",
        "patternProperties",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    ]
)
"""What some draft gives a meaning that is not known here. What none does (`title`, `x-...`) says nothing."""
_BASE: Final = frozenset({"$id", "id"})  # at the root it changes nothing: only local references are followed
_OBJECT: Final = frozenset(
    {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}
)
_ARRAY: Final = frozenset({"items", "minItems", "maxItems"})
_LENGTH: Final = frozenset({"minLength", "maxLength"})
_RANGE: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_TYPES: Final[dict[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),  # exactly: a bool is no integer, and 1.0 is left to jsonschema
    "number": frozenset({int, float}),
    "null": frozenset({type(None)}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}


class Unknown(Exception):  # noqa: N818 - a condition
    """The schema says something that is not known here."""


class FastCheck:
    """`accepts` is true only for what the schema surely accepts; for at most `limit` bytes of arguments."""

    __slots__ = ("accepts", "limit")

    def __init__(self, accepts: Check, weight: int) -> None:
        self.accepts = accepts
        self.limit = min(INLINE, VISITS * BYTES_A_VALUE // weight)


def fast_check(schema: Any) -> FastCheck | None:
    """The quick check of `schema`; None where there can be none. Never raises."""
    try:
        part = _Writer(schema).part(schema)
    except (Unknown, Unresolvable, RecursionError):
        return None
    except Exception:  # noqa: BLE001 - a keyword of an unheard-of kind: jsonschema says what is wrong with it
        return None
    return FastCheck(part.accepts, part.weight)


class _Part:
    """One check, and how many of its parts look at one value at most."""

    __slots__ = ("accepts", "types", "weight")

    def __init__(self, accepts: Check, weight: int = 1, types: frozenset[type] | None = None) -> None:
        self.accepts = accepts
        self.weight = weight
        self.types = types
        """The types that it is true for at most, where that is known."""


class _Writer:
    """Writes one schema out as closures."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._references = References(root)
        self._open: set[tuple[str, ...]] = set()
        self._parts = 0

    def part(self, schema: Any) -> _Part:
        """One subschema. Raises Unknown."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise Unknown
        if schema is True:
            return _Part(_anything)
        if not isinstance(schema, dict):
            raise Unknown
        beyond = schema.keys() & _BEYOND
        if beyond and not (schema is self._root and beyond <= _BASE):
            raise Unknown
        parts = list(self._keywords(schema))
        if not parts:
            return _Part(_anything)
        if len(parts) == 1:
            return parts[0]
        checks = tuple(part.accepts for part in parts)
        types = next((part.types for part in parts if part.types is not None), None)
        weight = sum(part.weight for part in parts)
        return _Part(lambda value: all(check(value) for check in checks), weight, types)

    def _keywords(self, schema: dict[str, Any]) -> Iterator[_Part]:
        """What each group of keywords says, for itself."""
        said = schema.keys()
        types = _types(schema["type"]) if "type" in said else None
        of_object, of_array = said & _OBJECT, said & _ARRAY
        only_object, only_array = types == _TYPES["object"], types == _TYPES["array"]
        if types is not None and not (of_object and only_object) and not (of_array and only_array):
            yield _Part(_of_type(types), 1, types)  # else the part below says it
        if of_object:
            yield self._object(schema, alone=only_object)
        if of_array:
            yield self._array(schema, alone=only_array)
        yield from _of_text_and_numbers(schema)
        if "$ref" in said:
            yield self._reference(schema["$ref"])
        yield from self._combined(schema)

    def _combined(self, schema: dict[str, Any]) -> Iterator[_Part]:
        for each in _list(schema.get("allOf", [])):
            yield self.part(each)
        if "anyOf" in schema:
            yield self._any(_list(schema["anyOf"]))
        if "oneOf" in schema:
            yield self._one(_list(schema["oneOf"]))

    def _reference(self, ref: Any) -> _Part:
        path = self._references.path(ref)
        if path in self._open:
            raise Unknown
        self._open.add(path)
        part = self.part(self._references.find(path))
        self._open.remove(path)
        return part

    def _any(self, branches: list[Any]) -> _Part:
        """Those branches that are known are enough for a yes."""
        known = []
        for branch in branches:
            before = self._open.copy()
            try:
                known.append(self.part(branch))
            except (Unknown, Unresolvable):
                self._open = before
        if not known:
            raise Unknown
        return _either(known)

    def _one(self, branches: list[Any]) -> _Part:
        """Only where no value can be of two branches."""
        parts = [self.part(branch) for branch in branches]
        seen: set[type] = set()
        for part in parts:
            types = part.types
            if types is None or types & seen:
                raise Unknown
            seen |= types | ({int} if float in types else set())
        return _either(parts)

    def _array(self, schema: dict[str, Any], *, alone: bool) -> _Part:
        item = self.part(schema["items"]) if "items" in schema else None
        least, most = _count(schema.get("minItems", 0)), _count(schema.get("maxItems", _MANY))
        check = None if item is None or item.accepts is _anything else item.accepts

        def fits(value: Any) -> bool:
            if type(value) is not list:
                return not alone
            return least <= len(value) <= most and (check is None or all(check(each) for each in value))

        return _Part(fits, max(1, item.weight if item else 1), _TYPES["array"] if alone else None)

    def _object(self, schema: dict[str, Any], *, alone: bool) -> _Part:
        parts = {name: self.part(child) for name, child in dict(schema.get("properties", {})).items()}
        needed = frozenset(_list(schema.get("required", [])))
        more = schema.get("additionalProperties", True)
        other = None if more is False else self.part(more)
        least, most = _count(schema.get("minProperties", 0)), _count(schema.get("maxProperties", _MANY))
        checks = {name: part.accepts for name, part in parts.items()}
        rest = None if other is None else other.accepts

        def fits(value: Any) -> bool:
            if type(value) is not dict:
                return not alone
            if not needed <= value.keys() or not least <= len(value) <= most:
                return False
            for name, item in value.items():
                check = checks.get(name, rest)
                if check is None or not check(item):
                    return False
            return True

        weight = max((part.weight for part in (*parts.values(), other) if part is not None), default=1)
        return _Part(fits, max(1, weight), _TYPES["object"] if alone else None)


_MANY: Final = 1 << 62


def _of_text_and_numbers(schema: dict[str, Any]) -> Iterator[_Part]:
    said = schema.keys()
    if said & _LENGTH:
        yield _length(schema.get("minLength", 0), schema.get("maxLength"))
    for word in said & _RANGE:
        yield _range(word, schema[word])
    if "enum" in said:
        yield _one_of(schema["enum"])
    if "const" in said:
        yield _one_of([schema["const"]])


def _anything(_value: Any) -> bool:
    return True


def _types(named: Any) -> frozenset[type]:
    names = [named] if isinstance(named, str) else _list(named)
    found: frozenset[type] = frozenset()
    for name in names:
        if not isinstance(name, str) or name not in _TYPES:
            raise Unknown
        found |= _TYPES[name]
    return found


def _of_type(types: frozenset[type]) -> Check:
    if len(types) == 1:
        (kind,) = types
        return lambda value: type(value) is kind
    return lambda value: type(value) in types


def _either(parts: list[_Part]) -> _Part:
    checks = tuple(part.accepts for part in parts)
    types: frozenset[type] | None = frozenset()
    for part in parts:
        types = None if types is None or part.types is None else types | part.types
    weight = sum(part.weight for part in parts)
    return _Part(lambda value: any(check(value) for check in checks), weight, types)


def _one_of(options: Any) -> _Part:
    """Strings and null only: of numbers and booleans Python and JSON do not agree which are equal."""
    if not all(type(option) is str or option is None for option in _list(options)):
        raise Unknown
    allowed = frozenset(options)
    types = frozenset(type(option) for option in options)
    return _Part(lambda value: type(value) in types and value in allowed, 1, types)


def _length(least: Any, most: Any) -> _Part:
    low, high = _count(least), _count(_MANY if most is None else most)
    return _Part(lambda value: type(value) is not str or low <= len(value) <= high)


def _range(word: str, bound: Any) -> _Part:
    if type(bound) is not int and type(bound) is not float:
        raise Unknown
    numbers = _TYPES["number"]
    match word:
        case "minimum":
            return _Part(lambda value: type(value) not in numbers or value >= bound)
        case "maximum":
            return _Part(lambda value: type(value) not in numbers or value <= bound)
        case "exclusiveMinimum":
            return _Part(lambda value: type(value) not in numbers or value > bound)
        case _:
            return _Part(lambda value: type(value) not in numbers or value < bound)


def _count(value: Any) -> int:
    if type(value) is not int:
        raise Unknown
    return value


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise Unknown
    return value

"""A quick yes to arguments that a JSON Schema surely accepts, in time linear in their size. Pure.

Most schemas are plain: objects of strings, numbers and lists, enumerations, references without a circle. Such
a schema becomes a function that is true only where jsonschema would find no error, at a tenth of its cost.
Where it is false, or the schema uses other keywords, jsonschema decides and explains. So this check alone
never refuses anything, and never accepts what jsonschema would not: a property test compares the two.

Its cost is bounded beforehand: a schema becomes at most `MAX_PARTS` parts, and `weight` says how many of them
look at one value of the arguments at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mcpx.core.rendering.typescript.refs import References, Unresolvable
from mcpx.core.validation.bounds import MAX_INLINE_BYTES

Check = Callable[[Any], bool]

_LENGTH: Final = frozenset({"minLength", "maxLength"})
_RANGE: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
TYPES: Final[dict[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),  # exactly: a bool is no integer, and 1.0 is left to jsonschema
    "number": frozenset({int, float}),
    "null": frozenset({type(None)}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}


class Unsupported(Exception):
    """The schema uses a keyword, or a form of one, that the fast check does not know."""


class Part:
    """One check; `weight` is how many of its parts look at one value at most."""

    __slots__ = ("accepts", "types", "weight")

    def __init__(self, accepts: Check, weight: int = 1, types: frozenset[type] | None = None) -> None:
        self.accepts = accepts
        self.weight = weight
        self.types = types
        """The only types that it accepts, where that is known."""


NO_LIMIT: Final = 1 << 62


def of_text_and_numbers(schema: dict[str, Any]) -> Iterator[Part]:
    """Yield a part for each keyword about texts, numbers and enumerations."""
    said = schema.keys()
    if said & _LENGTH:
        yield _length(schema.get("minLength", 0), schema.get("maxLength"))
    for word in said & _RANGE:
        yield _range(word, schema[word])
    if "enum" in said:
        yield _one_of(schema["enum"])
    if "const" in said:
        yield _one_of([schema["const"]])


def accept_all(_value: Any) -> bool:
    """Accept anything."""
    return True


def named_types(named: Any) -> frozenset[type]:
    """Return the Python types that `type` names.

    Raises:
        Unsupported: There is an unknown one among them.
    """
    names = [named] if isinstance(named, str) else listed(named)
    found: frozenset[type] = frozenset()
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            raise Unsupported
        found |= TYPES[name]
    return found


def of_type(types: frozenset[type]) -> Check:
    """Make a check that accepts exactly these types."""
    if len(types) == 1:
        (kind,) = types
        return lambda value: type(value) is kind
    return lambda value: type(value) in types


def either(parts: list[Part]) -> Part:
    """Make a part that accepts what any of `parts` does."""
    checks = tuple(part.accepts for part in parts)
    types: frozenset[type] | None = frozenset()
    for part in parts:
        types = None if types is None or part.types is None else types | part.types
    weight = sum(part.weight for part in parts)
    return Part(lambda value: any(check(value) for check in checks), weight, types)


def _one_of(options: Any) -> Part:
    """Of strings and null only: Python and JSON disagree which numbers and booleans are equal."""
    if not all(type(option) is str or option is None for option in listed(options)):
        raise Unsupported
    allowed = frozenset(options)
    types = frozenset(type(option) for option in options)
    return Part(lambda value: type(value) in types and value in allowed, 1, types)


def _length(least: Any, most: Any) -> Part:
    low, high = count(least), count(NO_LIMIT if most is None else most)
    return Part(lambda value: type(value) is not str or low <= len(value) <= high)


def _range(word: str, bound: Any) -> Part:
    if type(bound) is not int and type(bound) is not float:
        raise Unsupported
    numbers = TYPES["number"]
    match word:
        case "minimum":
            return Part(lambda value: type(value) not in numbers or value >= bound)
        case "maximum":
            return Part(lambda value: type(value) not in numbers or value <= bound)
        case "exclusiveMinimum":
            return Part(lambda value: type(value) not in numbers or value > bound)
        case _:
            return Part(lambda value: type(value) not in numbers or value < bound)


def count(value: Any) -> int:
    """Return a number of items or characters.

    Raises:
        Unsupported: It is no integer.
    """
    if type(value) is not int:
        raise Unsupported
    return value


def listed(value: Any) -> list[Any]:
    """Return a list as it is.

    Raises:
        Unsupported: It is none.
    """
    if type(value) is not list:
        raise Unsupported
    return value


MAX_PARTS: Final = 1000  # closures for one schema: 5 ms to make
MAX_VISITS: Final = 200_000  # of values by parts, in one check: 30 ms
MIN_BYTES_PER_VALUE: Final = 2  # of JSON: `1,`
_UNSUPPORTED: Final = frozenset(
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
"""Keywords of some draft that only jsonschema checks. Unknown ones (`title`, `x-...`) are ignored."""
_ALLOWED_AT_ROOT: Final = frozenset({"$id", "id"})  # without effect: only local references are followed
_OBJECT: Final = frozenset(
    {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}
)
_ARRAY: Final = frozenset({"items", "minItems", "maxItems"})


class FastCheck:
    """A compiled check: `accepts` is for arguments of at most `limit` bytes."""

    __slots__ = ("accepts", "limit")

    def __init__(self, accepts: Check, weight: int) -> None:
        self.accepts = accepts
        self.limit = min(MAX_INLINE_BYTES, MAX_VISITS * MIN_BYTES_PER_VALUE // weight)


def fast_check(schema: Any) -> FastCheck | None:
    """Compile the fast check of `schema`; None if it uses what only jsonschema checks. Never raises."""
    try:
        part = _Compiler(schema).part(schema)
    except (Unsupported, Unresolvable, RecursionError):
        return None
    except Exception:  # noqa: BLE001 - a malformed keyword: jsonschema says what is wrong
        return None
    return FastCheck(part.accepts, part.weight)


class _Compiler:
    """Makes one schema into closures."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._references = References(root)
        self._open: set[tuple[str, ...]] = set()
        self._parts = 0

    def part(self, schema: Any) -> Part:
        """Compile one subschema.

        Raises:
            Unsupported: It uses what only jsonschema checks.
        """
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise Unsupported
        if schema is True:
            return Part(accept_all)
        if not isinstance(schema, dict):
            raise Unsupported
        beyond = schema.keys() & _UNSUPPORTED
        if beyond and not (schema is self._root and beyond <= _ALLOWED_AT_ROOT):
            raise Unsupported
        parts = list(self._keywords(schema))
        if not parts:
            return Part(accept_all)
        if len(parts) == 1:
            return parts[0]
        checks = tuple(part.accepts for part in parts)
        types = next((part.types for part in parts if part.types is not None), None)
        weight = sum(part.weight for part in parts)
        return Part(lambda value: all(check(value) for check in checks), weight, types)

    def _keywords(self, schema: dict[str, Any]) -> Iterator[Part]:
        """Yield a part for each group of keywords."""
        said = schema.keys()
        types = named_types(schema["type"]) if "type" in said else None
        of_object, of_array = said & _OBJECT, said & _ARRAY
        only_object, only_array = types == TYPES["object"], types == TYPES["array"]
        if types is not None and not (of_object and only_object) and not (of_array and only_array):
            yield Part(of_type(types), 1, types)  # else the part below says it
        if of_object:
            yield self._object(schema, alone=only_object)
        if of_array:
            yield self._array(schema, alone=only_array)
        yield from of_text_and_numbers(schema)
        if "$ref" in said:
            yield self._reference(schema["$ref"])
        yield from self._combined(schema)

    def _combined(self, schema: dict[str, Any]) -> Iterator[Part]:
        for each in listed(schema.get("allOf", [])):
            yield self.part(each)
        if "anyOf" in schema:
            yield self._any(listed(schema["anyOf"]))
        if "oneOf" in schema:
            yield self._one(listed(schema["oneOf"]))

    def _reference(self, ref: Any) -> Part:
        path = self._references.path(ref)
        if path in self._open:
            raise Unsupported
        self._open.add(path)
        part = self.part(self._references.find(path))
        self._open.remove(path)
        return part

    def _any(self, branches: list[Any]) -> Part:
        """The supported branches are enough for a yes."""
        known = []
        for branch in branches:
            before = self._open.copy()
            try:
                known.append(self.part(branch))
            except (Unsupported, Unresolvable):
                self._open = before
        if not known:
            raise Unsupported
        return either(known)

    def _one(self, branches: list[Any]) -> Part:
        """Only where no value can match two branches."""
        parts = [self.part(branch) for branch in branches]
        seen: set[type] = set()
        for part in parts:
            types = part.types
            if types is None or types & seen:
                raise Unsupported
            seen |= types | ({int} if float in types else set())
        return either(parts)

    def _array(self, schema: dict[str, Any], *, alone: bool) -> Part:
        item = self.part(schema["items"]) if "items" in schema else None
        least, most = count(schema.get("minItems", 0)), count(schema.get("maxItems", NO_LIMIT))
        check = None if item is None or item.accepts is accept_all else item.accepts

        def fits(value: Any) -> bool:
            if type(value) is not list:
                return not alone
            return least <= len(value) <= most and (check is None or all(check(each) for each in value))

        return Part(fits, max(1, item.weight if item else 1), TYPES["array"] if alone else None)

    def _object(self, schema: dict[str, Any], *, alone: bool) -> Part:
        parts = {name: self.part(child) for name, child in dict(schema.get("properties", {})).items()}
        needed = frozenset(listed(schema.get("required", [])))
        more = schema.get("additionalProperties", True)
        other = None if more is False else self.part(more)
        least, most = count(schema.get("minProperties", 0)), count(schema.get("maxProperties", NO_LIMIT))
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
        return Part(fits, max(1, weight), TYPES["object"] if alone else None)

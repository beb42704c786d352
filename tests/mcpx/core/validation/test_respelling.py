"""Strings that spell what the schema wants are taken as that where it makes the whole fit."""

from __future__ import annotations

import pytest

from mcpx.core.validation.respelling import respelled
from mcpx.core.validation.worker import SchemaCheck


def fits(schema, arguments) -> bool:
    return SchemaCheck(schema).problems(arguments) == []


def of(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


OPTIONAL = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
FILES = {"type": "array", "items": of(n={"type": "integer"})}


@pytest.mark.parametrize(
    ("wanted", "given", "sent"),
    [
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, " -5 ", -5),
        ({"type": "integer"}, "5.0", 5),
        ({"type": "integer"}, "1" * 30, int("1" * 30)),
        ({"type": "number"}, "5.5", 5.5),
        ({"type": "number"}, "5", 5),
        ({"type": ["number", "null"]}, "1e3", 1000.0),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": "null"}, "null", None),
        ({"type": "array"}, '["a", 1]', ["a", 1]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        (OPTIONAL, "5", 5),
        (OPTIONAL, "None", None),
        ({"oneOf": [{"type": "boolean"}, {"type": "array"}]}, "[]", []),
        ({"enum": [1, 2, 3]}, "2", 2),
        ({"const": True}, "true", True),
        ({"$ref": "#/properties/other"}, "5", 5),
        (FILES, '[{"n": "1"}, {"n": 2}]', [{"n": 1}, {"n": 2}]),
        (FILES, [{"n": "1"}], [{"n": 1}]),
        ({"type": "array", "items": {"type": "integer"}}, ["1", 2, "3"], [1, 2, 3]),
    ],
)
def test_what_a_string_spells_is_sent(wanted, given, sent):
    schema = of(a=wanted) | {"properties": {"a": wanted, "other": {"type": "integer"}}}
    assert not fits(schema, {"a": given, "text": "7"})
    read = respelled(schema, {"a": given, "text": "7"})
    assert read == {"a": sent, "text": "7"}
    assert type(read["a"]) is type(sent)
    assert fits(schema, read)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ({"type": "integer"}, "five"),
        ({"type": "integer"}, ""),
        ({"type": "integer"}, "5.5"),
        ({"type": "integer"}, "1,000"),
        ({"type": "integer"}, '"5"'),
        ({"type": "integer"}, True),
        ({"type": "integer", "maximum": 3}, "5"),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "1e400"),
        ({"type": "boolean"}, "1"),
        ({"type": "boolean"}, "yes"),
        ({"type": "array"}, "a, b"),
        ({"type": "array"}, "[" * 5000),
        ({"type": "array", "items": {"type": "integer"}}, "[1, null]"),
        ({"type": "string"}, 5),
        ({"type": "string"}, True),
        ({"enum": [1, 2]}, "3"),
        ({"enum": [True]}, "1"),
    ],
)
def test_what_it_does_not_spell_is_refused_as_it_was_given(wanted, given):
    assert not fits(of(a=wanted), respelled(of(a=wanted), {"a": given}))


def test_what_was_given_is_not_changed():
    given = {"a": ["1"], "b": {"c": "2"}}
    whole = {"type": "integer"}
    schema = of(a={"type": "array", "items": whole}, b=of(c=whole))
    assert respelled(schema, given) == {"a": [1], "b": {"c": 2}}
    assert given == {"a": ["1"], "b": {"c": "2"}}


@pytest.mark.parametrize(
    "schema",
    [
        3,
        {"properties": 3},
        {"properties": {"a": {"$ref": 3}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"anyOf": 3}}},
        {"properties": {"a": {"enum": 3}}},
        {"properties": {"a": {"type": {}}}},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
    ],
)
def test_a_schema_that_says_nothing_sensible_changes_nothing(schema):
    assert respelled(schema, {"a": "5"}) == {"a": "5"}

"""Strings that spell what the schema wants are taken as that where it makes the whole fit."""

from __future__ import annotations

import msgspec
import pytest

from mcpx.validation.protocol import Job, Verdict
from mcpx.validation.worker import Judge


def judge(schema, arguments) -> Verdict:
    return Judge().judge(Job(msgspec.json.encode(schema), msgspec.json.encode(arguments)))


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
    verdict = judge(schema, {"a": given, "text": "7"})
    assert verdict.problems == []
    read = msgspec.json.decode(verdict.respelled)
    assert read == {"a": sent, "text": "7"}
    assert type(read["a"]) is type(sent)


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
    verdict = judge(of(a=wanted), {"a": given})
    assert verdict.respelled == b""
    assert [problem.path for problem in verdict.problems] == ["$.a"]


def test_nothing_is_changed_where_something_else_is_wrong():
    verdict = judge(of(a={"type": "integer"}, b={"type": "integer"}), {"a": "5"})
    assert verdict.respelled == b""
    assert sorted(problem.path for problem in verdict.problems) == ["$.a", "$.b"]


def test_a_name_that_was_likely_meant_for_a_missing_one_is_named():
    schema = of(timezone={"type": "string"})
    (problem,) = judge(schema, {"timezon": "UTC"}).problems
    assert problem.problem == "is missing; expected string; is timezon meant for it?"

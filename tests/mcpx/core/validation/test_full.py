"""Arguments against schemas: every failure names its path, nothing is fetched, odd schemas check nothing."""

from __future__ import annotations

import msgspec
import pytest

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.validation.arguments import read_raw_arguments
from mcpx.core.validation.bounds import MAX_SCHEMA_CHARS, MAX_SCHEMA_DEPTH, MAX_SCHEMA_VALUES, why_too_large
from mcpx.core.validation.errors import Check, Verdict, invalid_arguments
from mcpx.core.validation.worker import Judge, bad_reference
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.http_server import Handler, serving_http

UNRESOLVABLE = {
    "remote": {"$ref": "http://127.0.0.1:9/schema.json"},
    "file": {"$ref": "file:///etc/hostname"},
    "no such definition": {"$ref": "#/$defs/nothing"},
    "unknown anchor": {"$ref": "#nowhere"},
}


def tool(schema, name: str = "t") -> ToolInfo:
    return ToolInfo(server_name="s", name=name, input_schema=schema)


def judge(schema, arguments) -> Verdict:
    """What the worker says, asked in this process."""
    return Judge().judge(Check(msgspec.json.encode(schema), msgspec.json.encode(arguments)))


def problems(schema, arguments) -> list[tuple[str, str]]:
    verdict = judge(schema, arguments)
    error = invalid_arguments(tool(schema), verdict.problems, verdict.schema)
    assert (error.code, error.outcome, error.server, error.tool) == (
        Code.INVALID_ARGUMENTS,
        Outcome.NOT_SENT,
        "s",
        "t",
    )
    found = [(each["path"], each["problem"]) for each in error.details["problems"]]
    assert all(f"- {path}: {problem}" in str(error) for path, problem in found)
    assert error.details["schema"] in str(error)
    return found


def within(schema) -> dict:
    """That schema two levels down, so that a path is more than its last step."""
    return {"type": "object", "properties": {"a": {"type": "array", "items": schema}}}


@pytest.mark.parametrize(
    ("schema", "value", "path", "told"),
    [
        ({"type": "integer"}, "x", "$.a[0]", 'expected integer, got the string "x"'),
        ({"type": ["integer", "null"]}, [], "$.a[0]", "expected integer or null, got an array"),
        ({"type": "string"}, None, "$.a[0]", "expected string, got null"),
        ({"type": "string"}, True, "$.a[0]", "expected string, got a boolean"),
        ({"type": "string"}, 1.5, "$.a[0]", "expected string, got the number 1.5"),
        ({"type": "string"}, {}, "$.a[0]", "expected string, got an object"),
        ({"enum": ["up", "down", 3]}, "left", "$.a[0]", 'expected one of "up", "down", 3, got "left"'),
        ({"const": 7}, 8, "$.a[0]", "7 was expected"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "$.a[0]", "fits none"),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "x", "$.a[0]", "fits none"),
        ({"allOf": [{"type": "integer"}]}, "x", "$.a[0]", "expected integer"),
        ({"not": {"type": "string"}}, "x", "$.a[0]", "not"),
        ({"minimum": 3}, 2, "$.a[0]", "minimum"),
        ({"maximum": 3}, 4, "$.a[0]", "maximum"),
        ({"exclusiveMinimum": 3}, 3, "$.a[0]", "minimum"),
        ({"exclusiveMaximum": 3}, 3, "$.a[0]", "maximum"),
        ({"multipleOf": 2}, 3, "$.a[0]", "multiple"),
        ({"minLength": 3}, "ab", "$.a[0]", "short"),
        ({"maxLength": 1}, "ab", "$.a[0]", "long"),
        ({"pattern": "^x"}, "ab", "$.a[0]", "match"),
        ({"minItems": 1}, [], "$.a[0]", ""),
        ({"maxItems": 1}, [1, 2], "$.a[0]", "too long"),
        ({"uniqueItems": True}, [1, 1], "$.a[0]", "unique"),
        ({"contains": {"type": "string"}}, [1], "$.a[0]", ""),
        ({"prefixItems": [{"type": "string"}]}, [1], "$.a[0][0]", "expected string"),
        ({"properties": {"b": {"type": "string"}}}, {"b": 1}, "$.a[0].b", "expected string"),
        ({"required": ["b"], "properties": {"b": {"const": 1}}}, {}, "$.a[0].b", "is missing; expected 1"),
        ({"required": ["b"]}, {}, "$.a[0].b", "is missing; expected a value"),
        ({"properties": {"nam": {}}, "additionalProperties": False}, {"nma": 1}, "$.a[0].nma", "mean nam?"),
        ({"additionalProperties": False}, {"x": 1}, "$.a[0].x", "known are none"),
        ({"additionalProperties": {"type": "string"}}, {"x": 1}, "$.a[0].x", "expected string"),
        ({"patternProperties": {"^x": {"type": "string"}}}, {"x": 1}, "$.a[0].x", "expected string"),
        ({"propertyNames": {"maxLength": 1}}, {"xy": 1}, "$.a[0]", "xy"),
        ({"minProperties": 1}, {}, "$.a[0]", ""),
        ({"maxProperties": 0}, {"x": 1}, "$.a[0]", ""),
        ({"dependentRequired": {"x": ["y"]}}, {"x": 1}, "$.a[0]", "y"),
        ({"if": {"type": "string"}, "then": {"minLength": 3}}, "x", "$.a[0]", "short"),
        ({"properties": {"b": False}}, {"b": 1}, "$.a[0]", ""),  # jsonschema drops the last step of this one
    ],
)  # fmt: skip
def test_every_kind_of_failure_names_its_path(schema, value, path, told):
    ((found_path, problem),) = problems(within(schema), {"a": [value]})
    assert found_path == path
    assert problem
    assert told in problem


def test_a_name_that_was_likely_meant_for_a_missing_one_is_named():
    schema = {"properties": {"timezone": {"type": "string"}}, "required": ["timezone"]}
    assert problems(schema, {"timezon": "UTC"}) == [
        ("$.timezone", "is missing; expected string; is timezon meant for it?")
    ]


def test_a_key_that_is_no_name_is_quoted_in_the_path():
    ((path, _),) = problems({"properties": {"a b": {"type": "string"}}}, {"a b": 1})
    assert path.startswith("$")
    assert "a b" in path


def test_every_missing_name_is_told_and_none_that_is_there():
    schema = {"properties": {"a": {"type": "integer"}, "b": {}, "c": {}}, "required": ["a", "b", "c"]}
    assert [path for path, _ in problems(schema, {"b": 1})] == ["$.a", "$.c"]


def test_several_failures_are_told_together_but_not_hundreds():
    schema = {"additionalProperties": {"type": "integer"}}
    found = problems(schema, {f"k{number}": "x" for number in range(500)})
    assert len(found) == 10


def test_a_long_value_is_not_repeated_in_the_message():
    schema = {"properties": {"text": {"maxLength": 5}}}
    ((path, problem),) = problems(schema, {"text": "x" * 100_000})
    assert path == "$.text"
    assert problem.endswith("is too long")
    assert len(problem) < 300


def test_good_arguments_pass_and_recursive_schemas_are_followed():
    schema = {
        "$ref": "#/$defs/tree",
        "$defs": {"tree": {"properties": {"left": {"$ref": "#/$defs/tree"}, "n": {"type": "integer"}}}},
    }
    assert judge(schema, {"left": {"left": {"n": 3}}}) == Verdict()
    assert problems(schema, {"left": {"left": {"n": "x"}}})[0][0] == "$.left.left.n"


@pytest.mark.parametrize("schema", UNRESOLVABLE.values(), ids=UNRESOLVABLE)
def test_a_reference_that_cannot_be_resolved_checks_nothing(schema):
    assert (
        "lead" in judge(within(schema), {"a": [1]}).unusable
        or "nowhere" in judge(within(schema), {"a": [1]}).unusable
    )


def test_a_schema_that_is_none_checks_nothing():
    assert judge({"type": "strange", "properties": 3}, {"a": 1}).unusable.startswith("at $.")


def test_a_remote_reference_is_never_fetched():
    asked: list[str] = []

    class Schemas(Handler):
        def get(self) -> None:
            asked.append(self.path)
            self.answer(200, b'{"type": "string"}')

    with serving_http(Schemas) as origin:
        url = f"{origin}/schema.json"
        for schema in (within({"$ref": url}), {"$schema": url, **within({"type": "string"})}, {"$ref": url}):
            with_refs = {**schema, "$id": url.replace("schema", "base")}
            for each in (with_refs, schema):
                judge(each, {"a": [1]})
    assert asked == []


def test_the_draft_that_a_schema_names_is_obeyed():
    old = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"n": {"maximum": 3, "exclusiveMaximum": True}},
    }
    assert problems(old, {"n": 3})[0][0] == "$.n"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, {}),
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("", {}),
        ("  \n", {}),
    ],
)
def test_arguments_are_an_object_or_a_json_string_that_holds_one(given, read):
    value, raw = read_raw_arguments(msgspec.json.encode(given), tool({}))
    assert value == msgspec.json.decode(raw) == read


@pytest.mark.parametrize("given", ["{", "hello", "[1]", '"text"', "3", "null", [1], 3, True, 1.5])
def test_arguments_of_any_other_kind_are_refused_at_the_root(given):
    with pytest.raises(CallError) as caught:
        read_raw_arguments(msgspec.json.encode(given), tool({}))
    assert caught.value.code is Code.INVALID_ARGUMENTS
    assert caught.value.details["problems"][0]["path"] == "$"
    assert "expected an object" in str(caught.value)


REF_A, REF_B = {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"type": "object", **REF_A, "$defs": {"a": REF_B, "b": REF_A}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"items": REF_A, "$defs": {"a": {"anyOf": [{"type": "string"}, {"not": REF_A}]}}},
        {"extends": {"$ref": "#"}},
        {"dependentSchemas": {"x": {"$ref": "#"}}},
        {"if": True, "then": {"allOf": [{"properties": {"x": {}}}, {"$ref": "#"}]}},
    ],
)
def test_a_circle_in_place_is_found(schema):
    assert bad_reference(schema) == "the schema refers to itself without end"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/x/zz"}}, "x": [1]},
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"items": {"$ref": "http://example.org/schema"}},
    ],
)
def test_a_reference_to_nothing_is_found(schema):
    assert "leads nowhere" in bad_reference(schema)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"properties": {"left": {"$ref": "#"}, "right": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
        {"items": REF_A, "$defs": {"a": {"items": REF_B}, "b": {"items": REF_A}}},
        {"properties": {"$ref": {"type": "string"}}},
        {"$defs": {"unused": {"$ref": "#/nowhere"}}, "enum": [{"$ref": "#/nowhere"}]},
        {"properties": {"a": REF_A, "b": REF_A}, "$defs": {"a": {"allOf": [REF_B, REF_B]}, "b": {}}},
        {"properties": {"a": {"$ref": "#anchor"}}},
        {"properties": {"a": {"$ref": 5}}},
    ],
)
def test_nothing_is_said_of_the_others(schema):
    assert bad_reference(schema) is None


def test_sizes_of_schemas_are_bounded():
    deep: dict = {}
    for _ in range(100_000):
        deep = {"items": deep}
    assert f"{MAX_SCHEMA_DEPTH} levels" in why_too_large(deep)
    assert f"{MAX_SCHEMA_VALUES} values" in why_too_large({"enum": list(range(MAX_SCHEMA_VALUES + 1))})
    assert f"{MAX_SCHEMA_CHARS} characters" in why_too_large({"description": "x" * (MAX_SCHEMA_CHARS + 1)})
    assert why_too_large({"properties": {f"p{number}": {"type": "string"} for number in range(5000)}}) is None

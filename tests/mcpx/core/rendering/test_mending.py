"""Schemas of native tools in forms that hosts accept: each mend by itself, and all tools of the corpus."""

from __future__ import annotations

import json
import re

import pytest
from jsonschema import Draft202012Validator

from mcpx.core.rendering.mending import ALL_MENDS, MAX_NODES, NOTHING, mended, mends_in
from mcpx.core.validation.respelling import as_given
from scripts.lab.contextbench.recorded import load
from tests.tokens import corpus

OF_HOSTS = sorted(ALL_MENDS - {"strict"})
PATHS = {"type": "object", "properties": {"paths": {"type": "array"}, "scopes": {"type": "array"}}}


@pytest.mark.parametrize(
    ("mend", "given", "made"),
    [
        ("items", {"type": "array"}, {"type": "array", "items": {}}),
        (
            "items",
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
        ),
        ("formats", {"type": "string", "format": "uri"}, {"type": "string", "description": "format: uri"}),
        ("formats", {"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ("choices", {"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        ("choices", {"const": "a"}, {"enum": ["a"], "type": "string"}),
        ("choices", {"enum": [1, 2]}, {"description": "one of 1, 2", "type": "integer"}),
        (
            "choices",
            {"type": ["integer", "null"], "minimum": 1, "title": "n"},
            {"anyOf": [{"minimum": 1, "type": "integer"}, {"type": "null"}], "title": "n"},
        ),
        (
            "choices",
            {"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}]},
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        ),
    ],
)
def test_what_a_host_refuses_is_said_in_another_way(mend, given, made):
    schema = {"type": "object", "properties": {"x": given}}
    assert mended(schema, [mend]) == {"type": "object", "properties": {"x": made}}


def test_each_of_several_types_has_what_is_said_of_it_alone():
    given = {
        "type": ["array", "string", "null"],
        "format": "uri",
        "enum": ["a"],
        "minItems": 1,
        "required": [],
    }
    schema = {"type": "object", "properties": {"x": given}}
    branches = [
        {"type": "array", "minItems": 1, "items": {}},
        {"type": "string", "enum": ["a"], "minItems": 1},
        {"type": "null"},
    ]
    made = {"anyOf": branches, "description": "format: uri"}
    assert mended(schema, OF_HOSTS) == {"type": "object", "properties": {"x": made}}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_alternatives_at_the_top_become_what_one_of_them_has(keyword):
    branches = [{"required": ["paths"]}, {"properties": {"all": {"type": "boolean"}}, "required": ["all"]}]
    made = mended(PATHS | {keyword: branches}, ["top"])
    assert made == {"type": "object", "properties": PATHS["properties"] | {"all": {"type": "boolean"}}}


def test_what_every_alternative_requires_is_required():
    branches = [
        {"properties": {"kind": {"const": "a"}, "a": {"type": "string"}}, "required": ["kind", "a"]},
        {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
    ]
    made = mended({"anyOf": branches}, ["top"])
    assert made["required"] == ["kind"]
    assert made["properties"]["kind"] == {"anyOf": [{"const": "a"}, {"const": "b"}]}


def test_references_are_replaced_and_a_circle_ends():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}
    made = mended(
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}, ["refs"]
    )
    assert "$ref" not in json.dumps(made)
    assert "$defs" not in made
    assert made["properties"]["x"]["properties"] == {"next": {}, "n": {"type": "integer"}}


def test_a_schema_that_needs_nothing_is_the_same_object():
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    assert mended(schema, OF_HOSTS) is schema
    assert mended(schema, []) is schema


def tower():
    """References that double at each step."""
    pair = {"type": "object", "properties": {"a": None, "b": None}}
    defs = {
        f"d{n}": pair | {"properties": {name: {"$ref": f"#/$defs/d{n + 1}"} for name in "ab"}}
        for n in range(40)
    }
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs | {"d40": {}}}


def deep():
    schema = {"type": "string"}
    for _ in range(500):
        schema = {"type": "array", "items": schema}
    return {"type": "object", "properties": {"x": schema}}


@pytest.mark.parametrize(
    "schema",
    [
        tower(),
        deep(),
        {"type": "object", "properties": {str(n): {"type": "array"} for n in range(2 * MAX_NODES)}},
        {"type": "object", "properties": {"x": {"$ref": "#/properties/x"}}},
        {"$ref": "#"},
    ],
)
def test_no_schema_costs_more_than_the_budget(schema):
    made = mended(schema, ALL_MENDS)  # without a budget: for ever
    assert made is schema or "$ref" not in json.dumps(made)


# --- the corpus

TOOLS = [row for rows in corpus().values() for row in rows]


def inside(schema):
    """All schemas in a schema."""
    yield schema
    for key, value in schema.items():
        if key in {"properties", "$defs", "patternProperties"}:
            for each in value.values():
                yield from inside(each)
        elif key in {"anyOf", "oneOf", "allOf", "prefixItems"}:
            for each in value:
                yield from inside(each)
        elif key in {"items", "additionalProperties"} and isinstance(value, dict):
            yield from inside(value)


def refused_by_vscode(schema):
    """`toolSchemaNormalizer.ts` of Copilot Chat."""
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        yield "the parameters must be an object"
    for each in inside(schema):
        if each.get("type") == "array" and not isinstance(each.get("items"), dict):
            yield "array type must have items"


def refused_by_functions(schema):
    """OpenAI's functions, which Codex and Copilot pass on; Anthropic's and Bedrock's are the first three."""
    if schema.get("type") != "object" or {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys():
        yield "must have type object, and no alternatives at the top"


def refused_by_gemini(schema):
    """The declarations of Gemini's API (OpenAPI's subset)."""
    for each in inside(schema):
        if {"$ref", "$defs", "oneOf", "allOf", "const", "not"} & each.keys():
            yield f"unsupported: {[*each]}"
        if isinstance(each.get("type"), list):
            yield "one type"
        if each.get("format", "date-time") != "date-time":
            yield "only enum and date-time are supported"
        if any(not isinstance(option, str) for option in each.get("enum", ())):
            yield "enum is of texts"
        if each.get("type") == "array" and "items" not in each:
            yield "items: missing field"


def refused_by_strict(schema):
    """Structured Outputs, Supported schemas; and what Gemini wants besides."""
    for each in inside(schema):
        if not isinstance(each.get("type"), str) and "anyOf" not in each:
            yield f"a schema must have a type: {each}"
        if each.get("type") == "object":
            if each.get("additionalProperties", False) is not False or not each.get("properties"):
                yield "additionalProperties must be false, properties not empty"
            if {*each.get("required", ())} != {*each.get("properties", ())}:
                yield "every property must be required"
        if {"default", "oneOf", "allOf", "$ref", "patternProperties"} & each.keys():
            yield "not permitted"


def test_no_tool_of_the_corpus_is_refused():
    assert len(TOOLS) == 527
    for row in TOOLS:
        shown, strict = mended(row["inputSchema"], OF_HOSTS), mended(row["inputSchema"], ALL_MENDS)
        for rules in (refused_by_vscode, refused_by_functions, refused_by_gemini):
            assert not list(rules(shown)), (row["tool"], rules)
            assert not list(rules(strict)), (row["tool"], rules)
        assert not list(refused_by_strict(strict)), row["tool"]
        Draft202012Validator.check_schema(strict)
        assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in strict["properties"])


def test_the_rules_are_held_against_the_corpus_as_it_is():
    """So that the test above can fail."""
    rules = (refused_by_gemini, refused_by_strict)
    assert all(any(list(rule(row["inputSchema"])) for row in TOOLS) for rule in rules)
    assert {mend for row in TOOLS for mend in mends_in(row["inputSchema"], OF_HOSTS)} == {
        "choices",
        "formats",
        "refs",
        "top",
    }


def written(schema, value):
    """A value as a model writes it that is held to a strict schema: null for what it leaves out, and JSON."""
    branches = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    if value is None and len(branches) < len(schema.get("anyOf", ())):
        return None
    for each in branches:
        kind = each.get("type")
        if kind == "object" and isinstance(value, dict):
            return {name: written(inner, value.get(name)) for name, inner in each["properties"].items()}
        if kind == "array" and isinstance(value, list):
            return [written(each["items"], item) for item in value]
    if any(Draft202012Validator(each).is_valid(value) for each in branches):
        words = " ".join(str(each.get("description")) for each in [schema, *branches])
        return json.dumps(value) if "any value, written as JSON" in words else value
    return json.dumps(value)


def test_each_recorded_call_arrives_as_its_server_wants_it():
    recorded = load()
    schemas = {(row["server"], row["tool"]): row["inputSchema"] for row in TOOLS}
    calls = [call for session in recorded.sessions for call in session.calls]
    assert len(calls) > 500
    fitting = 0
    for call in calls:
        schema = schemas[call.server, call.tool]
        if not Draft202012Validator(schema).is_valid(call.arguments):
            continue
        strict = mended(schema, ALL_MENDS)
        arguments = {name: value for name, value in call.arguments.items() if name in strict["properties"]}
        given = written(strict, arguments)
        Draft202012Validator(strict).validate(given)
        back = as_given(schema, given)
        Draft202012Validator(schema).validate(back)
        assert without_null(back) == without_null(arguments), (call.tool, given)
        fitting += 1
    assert fitting > 400


def without_null(value):
    if isinstance(value, dict):
        return {name: without_null(each) for name, each in value.items() if each is not None}
    return [without_null(each) for each in value] if isinstance(value, list) else value


def test_a_tool_without_arguments_takes_nothing():
    strict = mended({"type": "object", "properties": {}}, ALL_MENDS)
    assert strict["required"] == [NOTHING]
    assert as_given({"type": "object", "properties": {}}, {NOTHING: None}) == {}

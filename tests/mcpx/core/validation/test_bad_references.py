"""References at fault are found without a check, and honest recursion is left alone."""

from __future__ import annotations

import pytest

from mcpx.core.validation.bounds import MAX_SCHEMA_CHARS, MAX_SCHEMA_DEPTH, MAX_SCHEMA_VALUES, why_too_large
from mcpx.core.validation.full import bad_reference

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

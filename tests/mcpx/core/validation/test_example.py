"""Examples of arguments: what the schema says, placeholders beside it, and nothing that does not fit."""

from __future__ import annotations

import pytest

from mcpx.core.validation.example import MAX_EXAMPLE_CHARS, example_arguments
from mcpx.core.validation.fast import fast_check
from tests.mcpx.core.rendering.snapshots import corpus


def of(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        (of(["path"], path=TEXT, n={"type": "integer", "default": 10}), {"path": "<path>", "n": 10}),
        (of(["path"], path={**TEXT, "examples": ["/tmp/a", "/b"]}, n={"default": 1}), {"path": "/tmp/a"}),
        (of(["on"], on={"enum": ["up", "down"]}, n={"default": 1}), {"on": "up", "n": 1}),
        (of(n={"type": "integer", "examples": [3]}, m={"default": 1}), {"n": 3}),
        (of(["a"], a={"type": "array", "items": {"default": "x"}}), {"a": ["x"]}),
        (
            of(["o"], o=of(["n", "s"], n={"type": "integer", "minimum": 5}, s={**TEXT, "example": "x"})),
            {"o": {"n": 5, "s": "x"}},
        ),
        (
            of(["a"], a={"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]})
            | {"$defs": {"a": {"example": "x"}}},
            {"a": "x"},
        ),
        (of(a={"$ref": "#/$defs/a", "default": "x"}) | {"$defs": {"a": TEXT}}, {"a": "x"}),
        (of(["u"], u={**TEXT, "format": "date"}, n={"default": 2}), {"u": "2026-01-31", "n": 2}),
        (of(["a"], a=TEXT) | {"examples": [{"a": "whole"}]}, {"a": "whole"}),
    ],
)
def test_an_example_is_made_of_what_the_schema_says(schema, example):
    assert example_arguments(schema) == example


@pytest.mark.parametrize(
    "schema",
    [
        {},
        of(),
        of(["path"], path=TEXT),
        of(["on"], on={"enum": ["up", "down"]}),
        of(n={"default": None}, s={"default": ""}),
        of(["a"], a={"default": 5, "type": "string"}),
        of(["a"], a={"const": 1}),  # what is surely equal to a number is for jsonschema to say
        of(["a"], a={**TEXT, "pattern": "^x"}, n={"default": 1}),
        of(["a"], a={"$ref": "#/properties/a"}, n={"default": 1}),
        of(["a"], a={"$ref": "http://127.0.0.1:9/"}, n={"default": 1}),
        of(["a"], a={**TEXT, "default": "x" * MAX_EXAMPLE_CHARS}),
        {"properties": 3, "required": "x"},
        {"type": "object", "properties": {"a": {"examples": [1]}}, "required": [["a"]]},
    ],
)
def test_without_anything_to_show_or_to_be_sure_of_there_is_none(schema):
    assert example_arguments(schema) is None


@pytest.mark.corpus
def test_examples_of_real_schemas_fit_them():
    found = 0
    for server in corpus():
        for tool in server.tools.values():
            example = example_arguments(tool.input_schema)
            if example is not None:
                found += 1
                assert fast_check(tool.input_schema).accepts(example)
    assert found > 100

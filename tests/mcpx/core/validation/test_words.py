"""`key=value` words become what the schema wants."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.validation.errors import (
    MAX_DESCRIBED_CHARS,
    Problem,
    arguments_of,
    invalid_arguments,
    misspelt,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "message": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "loud": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "level": {"enum": [1, 2]},
        "mode": {"enum": ["1", "fast"]},
        "where": {"$ref": "#/$defs/place"},
        "a.b": {"type": "string"},
        "anything": {},
    },
    "$defs": {
        "place": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}}
    },
}


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("message=12", {"message": "12"}),
        ("message=null", {"message": "null"}),
        ("message=", {"message": ""}),
        ("count=12 share=0.5 loud=true", {"count": 12, "share": 0.5, "loud": True}),
        ("count=many", {"count": "many"}),
        ("share=3", {"share": 3}),
        ("tags=a", {"tags": ["a"]}),
        ("tags=a tags=1", {"tags": ["a", "1"]}),
        ('tags=["x","y"]', {"tags": ["x", "y"]}),
        ("sizes=1 sizes=2", {"sizes": [1, 2]}),
        ("sizes=7", {"sizes": [7]}),
        ("either=3", {"either": 3}),
        ("either=null", {"either": None}),
        ("level=2 mode=1", {"level": 2, "mode": "1"}),
        ("where.city=12 where.zip=34", {"where": {"city": "12", "zip": 34}}),
        ('where={"city":"x"}', {"where": {"city": "x"}}),
        ("a.b=1", {"a.b": "1"}),
        ("anything=12", {"anything": 12}),
        ("anything=1 anything=x", {"anything": [1, "x"]}),
        ("unknown=[1]", {"unknown": [1]}),
        ("un.known=1", {"un.known": 1}),
    ],
)
def test_words_have_the_types_of_the_schema(words, arguments):
    assert arguments_of([tuple(word.split("=", 1)) for word in words.split()], SCHEMA) == arguments


@pytest.mark.parametrize("schema", [{}, {"properties": 3}, {"properties": {"a": {"type": 7, "enum": 3}}}])
def test_a_schema_that_says_nothing_leaves_json(schema):
    assert arguments_of([("a", "1"), ("b", "x"), ("c", "{}")], schema) == {"a": 1, "b": "x", "c": {}}


def test_a_misspelt_key_is_told_the_nearest():
    (problem,) = misspelt(["mesage", "count", "xyz"], SCHEMA)
    assert (problem.path, problem.problem) == (
        "$.mesage",
        "there is no such parameter; did you mean message?",
    )


def test_a_key_whose_neighbour_is_given_too_is_meant():
    assert misspelt(["mesage", "message"], SCHEMA) == []


@pytest.mark.parametrize(
    "more", [{"additionalProperties": {}}, {"additionalProperties": True}, {"allOf": [{}]}]
)
def test_where_other_keys_are_allowed_none_is_misspelt(more):
    schema = {key: value for key, value in SCHEMA.items() if key != "$defs"} | more
    assert misspelt(["mesage"], schema) == []


def refusal(parameters: int, description: str) -> str:
    properties = {
        f"p{number}": {"type": "integer", "description": description, "maximum": 9}
        for number in range(parameters)
    }
    tool = ToolInfo(server_name="s", name="t", input_schema={"type": "object", "properties": properties})
    return str(invalid_arguments(tool, [Problem("$.p0", "is wrong")]))


def test_a_short_schema_is_shown_with_its_descriptions():
    assert "how many" in refusal(1, "how many").partition("It takes: ")[2]


@pytest.mark.parametrize(
    ("parameters", "description"), [(1, "x" * MAX_DESCRIBED_CHARS), (20, "how many of it")]
)
def test_a_long_schema_keeps_names_types_and_ranges(parameters, description):
    text = refusal(parameters, description)
    assert description not in text
    assert f"p{parameters - 1}?: " in text
    assert "9" in text.partition("It takes: ")[2]

"""JSON Schema as TypeScript: descriptions, defaults and bounds in the comments."""

from __future__ import annotations

import pytest

from mcpx.core.rendering.typescript import SchemaConverter

convert = SchemaConverter.convert


def of_property(name: str, schema: object) -> str:
    return convert({"type": "object", "properties": {name: schema}})


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 5}, "1..5"),
        ({"type": "number", "minimum": 0.5}, ">=0.5"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, ">0, <=1"),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, ">0"),
        ({"type": "number", "minimum": 0, "maximum": 1, "exclusiveMaximum": True}, ">=0, <1"),
        ({"type": "integer", "multipleOf": 5}, "multiple of 5"),
        ({"type": "string", "minLength": 1, "maxLength": 9}, "1..9 chars"),
        ({"type": "string", "minLength": 4, "maxLength": 4}, "4 chars"),
        ({"type": "string", "minLength": 0, "maxLength": 9}, "<=9 chars"),
        ({"type": "string", "format": "date-time"}, "date-time"),
        ({"type": "string", "pattern": "^a, b$", "default": "x"}, "default 'x', pattern ^a, b$"),
        ({"type": "string", "contentEncoding": "base64"}, "base64"),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
            ">=1 items, unique",
        ),
        ({"type": "array", "prefixItems": [{"type": "string"}], "minItems": 0, "maxItems": 1}, "<=1 items"),
        ({"type": "object", "minProperties": 1}, ">=1 keys"),
        ({"type": "object", "dependentRequired": {"a": ["b", "c"]}}, "a needs b+c"),
        ({"type": "string", "default": "it's"}, r"default 'it\'s'"),
        ({"type": "object", "default": {"a": [1.0]}}, "default {a: [1]}"),
        ({"type": "string", "deprecated": True, "readOnly": True}, "deprecated, read-only"),
        ({"type": "string", "nullable": True}, "nullable"),
        ({"type": "string", "examples": ["a", "b"]}, "e.g. 'a', 'b'"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}], "minimum": 3}, ">=3"),
    ],
)
def test_what_a_type_cannot_say_is_said_in_a_comment(keywords, expected):
    assert of_property("p", keywords).endswith(f" /* {expected} */}}")


@pytest.mark.parametrize(
    "keywords",
    [
        {"minimum": 3},
        {"minLength": 0},
        {"default": None},
        {"pattern": ""},
        {"additionalProperties": False},
        {"examples": []},
        {"deprecated": False},
    ],
)
def test_keywords_that_say_nothing_of_a_string_leave_no_comment(keywords):
    assert of_property("p", {"type": "string"} | keywords) == "{p?: string}"


def test_bounds_of_safe_integers_are_no_bounds():
    assert convert({"type": "integer", "minimum": -(2**53) + 1, "maximum": 2**53 - 1}) == "integer"
    assert convert({"type": "integer", "minimum": 0, "maximum": 2**53 - 1}) == "integer /* >=0 */"


def test_a_null_default_is_kept_where_the_property_is_required():
    schema = {"properties": {"p": {"type": "null", "default": None}}, "required": ["p"]}
    assert convert(schema) == "{p: null /* default null */}"


def test_descriptions_are_cut_at_the_limit_and_no_earlier():
    whole = {"type": "string", "description": "x" * 300}
    longer = {"type": "string", "description": "x" * 301}
    assert convert(whole) == f"string /* {'x' * 300} */"
    assert convert(longer) == f"string /* {'x' * 300}... */"
    assert convert(longer, max_description_len=5) == "string /* xxxxx... */"
    assert convert(longer, max_description_len=0) == "string"
    assert convert(longer, max_description_len=-1) == "string"


def test_facts_follow_the_description_and_are_never_cut():
    schema = {"type": "integer", "description": "How many to fetch", "minimum": 1, "default": 7}
    assert convert(schema, max_description_len=8) == "integer /* How many... >=1, default 7 */"
    assert convert(schema) == "integer /* How many to fetch; >=1, default 7 */"


def test_whitespace_of_every_kind_is_folded():
    described = {"type": "string", "description": " a\n\tb\r\n\u2028 c\x00\x85d "}
    assert convert(described) == "string /* a b c d */"


def test_the_end_of_a_comment_inside_a_description_is_harmless():
    schema = {"type": "string", "description": "glob **/*.py */ {evil: never}", "default": "*/"}
    out = convert(schema)
    assert out.count("*/") == 1
    assert out.endswith(" */")
    assert "{evil: never}" in out


@pytest.mark.parametrize("repeated", ["repo_path", "Repo Path", "repo path.", "RepoPath"])
@pytest.mark.parametrize("word", ["title", "description"])
def test_a_title_or_description_that_repeats_the_name_is_dropped(word, repeated):
    assert of_property("repo_path", {"type": "string", word: repeated}) == "{repo_path?: string}"


def test_a_title_that_says_more_than_the_name_stands_in_for_a_description():
    schema = {"type": "string", "title": "Name of the branch"}
    assert of_property("ref", schema) == "{ref?: string /* Name of the branch */}"
    assert of_property("ref", schema | {"description": "Branch"}) == "{ref?: string /* Branch */}"


def test_the_roots_description_is_kept_unless_it_is_the_tools():
    schema = {"type": "object", "title": "readArguments", "properties": {}, "description": "Give a or b."}
    assert convert(schema) == "{} /* Give a or b. */"
    assert convert(schema, tool_description="Reads.") == "{} /* Give a or b. */"
    assert convert(schema, tool_description="Give a or  b.") == "{}"

"""JSON Schema as TypeScript: what has no TypeScript form, and input that no author would write."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.rendering.typescript import SchemaConverter
from mcpx.core.rendering.typescript.literal import key

convert = SchemaConverter.convert
TEXT = {"type": "string"}

WORDS = [
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "$ref",
    "$defs",
    "definitions",
    "$id",
    "title",
    "description",
    "default",
    "examples",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "multipleOf",
    "nullable",
    "dependentRequired",
    "dependencies",
    "contains",
    "deprecated",
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
SCALARS |= st.sampled_from(
    ["string", "object", "array", "integer", "#", "#/$defs/a", "#/properties/a", "*/", "\u2028"]
)


def lists_and_dicts(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from([*WORDS, "a", "it's"]) | st.text(max_size=3)
    return st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5)


ANY_JSON = st.recursive(SCALARS, lists_and_dicts, max_leaves=30)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.dictionaries(NAMES, inner, max_size=4).map(lambda p: {"type": "object", "properties": p}),
        inner.map(lambda i: {"type": "array", "items": i}),
        branches.map(lambda b: {"anyOf": b}),
        branches.map(lambda b: {"allOf": b}),
        st.tuples(inner, NAMES).map(
            lambda pair: {"$defs": {"d": pair[0]}, "description": pair[1], **pair[0]}
        ),
    )


SCHEMAS = st.recursive(
    st.sampled_from([TEXT, {"type": "integer", "minimum": 0}, {}, {"enum": ["a", "*/", "{"]}, {"not": TEXT}]),
    objects,
    max_leaves=20,
)


def is_one_line(text: str) -> bool:
    return len(text.splitlines()) == 1


def names_in(schema: Any) -> set[str]:
    """Every property name that a value of this schema could have."""
    names = set(schema.get("properties", {}))
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", []), *schema.get("allOf", [])]
    inner += [schema["items"]] if "items" in schema else []
    return names.union(*map(names_in, inner))


def skeleton(text: str) -> str:
    """The text without comments, string literals and JSON strings."""
    return re.sub(r"""/\* .*? \*/|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", "", text)


@given(ANY_JSON)
def test_any_json_becomes_one_line(value):
    out = convert(value)
    assert is_one_line(out)
    assert out.encode()


@given(SCHEMAS)
def test_every_property_name_is_mentioned(schema):
    out = convert(schema)
    for name in names_in(schema):
        assert key(name) in out or json.dumps(name, ensure_ascii=False) in out


@given(SCHEMAS)
def test_brackets_balance_once_comments_and_strings_are_gone(schema):
    opened = []
    for char in re.findall(r"[(){}\[\]]", skeleton(convert(schema))):
        if char in "({[":
            opened.append(char)
        else:
            assert opened.pop() + char in {"()", "{}", "[]"}
    assert not opened


@pytest.mark.parametrize(
    "inner",
    [
        {"not": TEXT},
        {"type": "string", "if": {"minLength": 1}, "then": {"maxLength": 3}},
        {"type": "array", "contains": TEXT},
        {"type": "object", "dependentSchemas": {"a": {}}},
        {"type": "object", "dependencies": {"a": {"required": ["b"]}}},
        {"type": "object", "properties": {"a": TEXT}, "propertyNames": {"maxLength": 1}},
        {"type": "object", "unevaluatedProperties": TEXT},
        {
            "type": "object",
            "required": ["xa"],
            "patternProperties": {"^x": TEXT},
            "additionalProperties": False,
        },
        {"type": "file"},
        {"type": []},
        {"typ": "string"},
        {"format": "binary"},
        {"minimum": 1, "minLength": 1},
        {"enum": []},
        {"anyOf": {}},
        {"properties": 5},
        {"type": "string", "required": True},
        "string",
        ["string"],
        None,
    ],
)
def test_what_typescript_cannot_say_stands_as_json_and_the_rest_as_typescript(inner):
    schema = {"type": "object", "properties": {"a": inner, "b": TEXT}}
    compact = json.dumps(inner, separators=(",", ":"))
    assert convert(schema) == f"{{a?: {compact}, b?: string}}"
    assert convert(inner) == compact


def test_json_keeps_to_one_line_and_means_the_same():
    schema = {"not": {"const": "a\n\u2028\x85ü"}}
    out = convert(schema)
    assert is_one_line(out)
    assert json.loads(out) == schema


def test_lone_surrogates_come_out_fit_for_utf8():
    assert convert({"const": "\ud800"}) == r"'\ud800'"
    assert json.loads(convert({"not": {"const": "\ud800"}})) == {"not": {"const": "\ud800"}}


@pytest.mark.parametrize(
    "word", ["items", "not", "additionalProperties", "default", "const", "title", "type"]
)
def test_nesting_of_twenty_thousand_levels_is_shown_and_not_followed(word):
    schema: Any = TEXT
    for _ in range(20_000):
        schema = {word: schema}
    out = convert(schema)
    assert is_one_line(out)
    assert out.startswith(("unknown", "{"))
    assert convert({"enum": [schema, schema]}).count(f'{{"{word}":') >= 40_000


def test_nesting_beyond_reason_is_typescript_outside_and_json_inside():
    schema: Any = TEXT
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    inner, arrays = re.fullmatch(r"(.*?)((?:\[\])+)", convert(schema)).groups()
    assert len(arrays) // 2 == 65
    assert inner == '{"type":"array","items":' * 35 + '{"type":"string"}' + "}" * 35


def test_deep_json_without_recursion_is_the_same_json():
    inner: Any = {"b": [1, None], "a": {}, "": []}
    for _ in range(2_000):
        inner = [inner, True]
    out = convert(inner)
    assert out == "[" * 2_000 + '{"b":[1,null],"a":{},"":[]}' + ",true]" * 2_000


def test_references_that_double_at_every_step_stay_short():
    def doubled(step: int) -> dict[str, object]:
        to = {"$ref": f"#/$defs/A{step + 1}"}
        return {"type": "object", "properties": {"left": to, "right": to}}

    defs = {f"A{step}": doubled(step) for step in range(25)} | {"A25": TEXT}
    schema = {"$ref": "#/$defs/A0", "$defs": defs}
    assert len(convert(schema)) < len(json.dumps(schema))


def test_a_schema_that_grows_with_every_level_ends_as_json():
    schema: Any = {"properties": {"a": TEXT}}
    for _ in range(30):
        schema = {"properties": {"a": schema}, "anyOf": [{"required": ["a"], "maxProperties": 9}] * 2}
    out = convert(schema)
    assert json.loads(out) == schema


def test_a_schema_of_very_many_properties_ends_as_json():
    schema = {"type": "object", "properties": {f"p{n}": TEXT for n in range(20_000)}}
    assert json.loads(convert(schema)) == schema


def test_no_conversion_changes_its_schema():
    schema = {
        "type": "object",
        "properties": {"a": TEXT},
        "anyOf": [{"required": ["a"]}, {"minProperties": 2}],
    }
    before = json.dumps(schema)
    convert(schema)
    assert json.dumps(schema) == before

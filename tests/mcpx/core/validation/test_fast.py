"""The fast check against jsonschema: it may only ever say yes where jsonschema does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import (
    Draft3Validator,
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
)
from jsonschema.exceptions import SchemaError, UnknownType

from mcpx.core.validation.fast import fast_check
from tests.tokens import corpus

TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object", "nonsense"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from("abc"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=8,
)
KINDS = TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True)
BOUNDS = st.dictionaries(
    st.sampled_from(
        [
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ]
    ),
    st.integers(1, 3) | st.just(0.5),
    max_size=3,
) | st.sampled_from([{"pattern": "^a"}, {"uniqueItems": True}, {"uniqueItems": False}, {"format": "date"}])
DRAFTS = st.sampled_from(
    [
        Draft3Validator,
        Draft4Validator,
        Draft6Validator,
        Draft7Validator,
        Draft201909Validator,
        Draft202012Validator,
    ]
)
SCHEMAS = st.recursive(
    st.builds(lambda kind: {"type": kind}, TYPES)
    | st.builds(lambda options: {"enum": options}, st.lists(VALUES, min_size=1, max_size=3))
    | st.builds(
        lambda options: {"type": "string", "enum": options}, st.lists(st.sampled_from("abc"), min_size=1)
    )
    | st.just({"type": "string", "minLength": 2})
    | st.builds(
        lambda bounds, kind: {**bounds, **kind}, BOUNDS, st.just({}) | st.builds(lambda k: {"type": k}, KINDS)
    )
    | st.builds(lambda option: {"const": option}, VALUES)
    | st.just({"$ref": "#/$defs/a"})
    | st.just({"$ref": "#/$defs/b"})
    | st.just({"$ref": "#"})
    | st.just({})
    | st.just(True),
    lambda inner: (
        st.builds(
            lambda properties, required, more, kind: {
                "type": kind,
                "properties": properties,
                "required": required,
                **({} if more is None else {"additionalProperties": more}),
            },
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            st.none() | st.booleans(),
            st.sampled_from(["object", "object", "object", "array"]),
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda items, bounds: {"items": items, **bounds}, inner, BOUNDS)
        | st.builds(
            lambda word, branches, other: {word: branches, **(other if isinstance(other, dict) else {})},
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            st.lists(inner, min_size=1, max_size=3),
            inner,
        )
        | st.builds(lambda inner: {"additionalProperties": inner}, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(SCHEMAS, SCHEMAS, SCHEMAS, DRAFTS, st.lists(VALUES, min_size=3, max_size=8))
def test_its_yes_is_always_jsonschemas_in_every_draft(schema, first, second, draft, values):
    if isinstance(schema, dict):
        schema = {**schema, "$defs": {"a": first, "b": second}}
    check = fast_check(schema)
    accepted = [value for value in values if check is not None and check.accepts(value)]
    if not accepted:
        return
    try:
        draft.check_schema(schema)
    except SchemaError:
        return  # then nothing is checked
    for value in accepted:
        try:
            valid = draft(schema).is_valid(value)
        except (RecursionError, TypeError, UnknownType):
            continue  # ditto
        assert valid, (draft, schema, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": "x"}),
        ({"type": "object", "properties": {"a": {"type": "integer", "description": "d"}}}, {"a": 1, "b": 2}),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}},
            {"a": [1, 2.5]},
        ),
        ({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}, {"a": "x"}),
        (
            {"properties": {"a": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]}}},
            {"a": None},
        ),
        ({"properties": {"a": {"type": ["integer", "null"], "minimum": 1, "default": 3}}}, {"a": 1}),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"enum": ["x", None]}}}, {"a": None}),
        ({"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "array", "items": {}}]}}}, {"a": [1]}),
    ],
)
def test_it_says_yes_to_plain_arguments(schema, value):
    assert fast_check(schema).accepts(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, True),
        ({"type": "string"}, 1),
        ({"type": "object", "required": ["a"]}, {}),
        ({"type": "object", "additionalProperties": False}, {"a": 1}),
        ({"type": "object", "properties": {"a": {"type": "null"}}}, {"a": 0}),
    ],
)
def test_it_does_not_say_yes_to_what_is_wrong(schema, value):
    assert not fast_check(schema).accepts(value)


@pytest.mark.corpus
def test_it_knows_a_good_part_of_real_schemas():
    schemas = [row["inputSchema"] for rows in corpus().values() for row in rows]
    known = sum(fast_check(schema) is not None for schema in schemas)
    assert known > len(schemas) * 0.9

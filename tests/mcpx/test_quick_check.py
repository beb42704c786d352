"""The quick check against jsonschema: it may only ever say yes where jsonschema does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcpx.quick_check import quick_check
from tests.tokens import CORPUS, corpus

TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object", "nonsense"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from("abc"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=8,
)
SCHEMAS = st.recursive(
    st.builds(lambda kind: {"type": kind}, TYPES)
    | st.builds(lambda options: {"enum": options}, st.lists(VALUES, min_size=1, max_size=3))
    | st.builds(
        lambda options: {"type": "string", "enum": options}, st.lists(st.sampled_from("abc"), min_size=1)
    )
    | st.just({"type": "string", "minLength": 2})
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
    ),
    max_leaves=6,
)


@settings(max_examples=1500, deadline=None)
@given(SCHEMAS, st.lists(VALUES, min_size=3, max_size=8))
def test_its_yes_is_always_jsonschemas(schema, values):
    check = quick_check(schema)
    if check is None:
        return
    validator = Draft202012Validator(schema)
    for value in values:
        if check(value):
            assert validator.is_valid(value), (schema, value)


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
    ],
)
def test_it_says_yes_to_plain_arguments(schema, value):
    assert quick_check(schema)(value)


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
    assert not quick_check(schema)(value)


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the checkout")
def test_it_knows_a_good_part_of_real_schemas():
    schemas = [row["inputSchema"] for rows in corpus().values() for row in rows]
    known = sum(quick_check(schema) is not None for schema in schemas)
    assert known > len(schemas) / 3

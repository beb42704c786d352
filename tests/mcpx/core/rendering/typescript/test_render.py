"""JSON Schema as TypeScript: the notation, one table a group of keywords."""

from __future__ import annotations

import pytest

from mcpx.core.rendering.typescript import SchemaConverter

convert = SchemaConverter.convert
TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def props(required: tuple[str, ...] = (), /, **properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(required)}


def check(schema: object, expected: str) -> None:
    assert convert(schema) == expected


def test_the_contracts_own_example_on_the_class_and_on_an_instance():
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    assert SchemaConverter.convert(schema) == "{path: string}"
    assert SchemaConverter().convert(schema) == "{path: string}"


def test_a_whole_tool_reads_as_one_line_with_comments():
    schema = props(
        ("path",),
        path={"type": "string", "description": "File to read"},
        limit={"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        mode={"type": "string", "enum": ["a", "b"]},
    )
    expected = "{path: string /* File to read */, limit?: integer /* 1..100, default 10 */, mode?: 'a' | 'b'}"
    check(schema, expected)


@pytest.mark.parametrize("name", ["string", "number", "integer", "boolean", "null"])
def test_basic_types_keep_their_names(name):
    check({"type": name}, name)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object"}, "object"),
        ({"type": "object", "additionalProperties": True}, "object"),
        ({"type": "object", "properties": {}}, "{}"),
        ({"type": "object", "properties": {}, "additionalProperties": False}, "{}"),
        ({"type": "object", "additionalProperties": False}, "{}"),
        ({"type": "object", "additionalProperties": NUMBER}, "{[key: string]: number}"),
        (props(a=TEXT) | {"additionalProperties": False}, "{a?: string}"),
        (props(a=TEXT) | {"additionalProperties": NUMBER}, "{a?: string, [key: string]: number}"),
        (props(a=TEXT) | {"additionalProperties": True}, "{a?: string, [key: string]: unknown}"),
        (
            {"type": "object", "patternProperties": {"^x-": NUMBER}},
            "{[key: string /* pattern ^x- */]: number}",
        ),
        (
            {"propertyNames": {"enum": ["a", "b"]}, "additionalProperties": NUMBER},
            "{[key: 'a' | 'b']: number}",
        ),
        (props(("a",), a=props(b=TEXT)), "{a: {b?: string}}"),
        ({"type": "object", "required": ["a"]}, "{a: unknown}"),
        ({"properties": {"a": TEXT}}, "{a?: string}"),
    ],
)
def test_objects(schema, expected):
    check(schema, expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a-b", "'a-b'"), ("", "''"), ("it's", r"'it\'s'"), ("1st", "'1st'"), ("größe", "größe"), ("$x", "$x")],
)
def test_names_are_quoted_where_they_must_be(name, expected):
    check({"type": "object", "properties": {name: TEXT}}, f"{{{expected}?: string}}")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "array", "items": TEXT}, "string[]"),
        ({"type": "array"}, "unknown[]"),
        ({"type": "array", "items": {"anyOf": [TEXT, {"type": "integer"}]}}, "(string | integer)[]"),
        ({"type": "array", "items": {"type": "array", "items": TEXT}}, "string[][]"),
        ({"type": "array", "items": TEXT | {"description": "one"}}, "(string /* one */)[]"),
        ({"type": "array", "items": False}, "[]"),
        ({"type": "array", "prefixItems": [TEXT, NUMBER]}, "[string, number]"),
        (
            {"type": "array", "prefixItems": [TEXT, NUMBER], "minItems": 2, "maxItems": 2},
            "[string, number]",
        ),
        ({"type": "array", "prefixItems": [TEXT], "items": NUMBER}, "[string, ...number[]]"),
        ({"type": "array", "items": [TEXT, NUMBER]}, "[string, number]"),
        (
            {"items": [TEXT], "additionalItems": {"type": ["null", "string"]}},
            "[string, ...(null | string)[]]",
        ),
    ],
)
def test_arrays_and_tuples(schema, expected):
    check(schema, expected)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [TEXT, {"type": "null"}]}, "string | null"),
        ({"oneOf": [TEXT, NUMBER]}, "string | number"),
        ({"anyOf": [TEXT, {"anyOf": [NUMBER, TEXT]}]}, "string | number"),
        ({"type": "object", "oneOf": [props(a=TEXT), props(b=TEXT)]}, "{a?: string} | {b?: string}"),
        ({"type": "string", "anyOf": [{"minLength": 2}, {"const": ""}]}, "string /* >=2 chars */ | ''"),
        (
            {"type": "object", "oneOf": [{"properties": {"k": {"const": 1}}}, {"required": ["z"]}]},
            "{k?: 1} | {z: unknown}",
        ),
        (
            {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "description": "Depth"},
            "integer | null /* Depth; >=1 */",
        ),
        (
            {"oneOf": [TEXT | {"title": "Name"}, NUMBER], "description": "Who"},
            "(string /* Name */ | number) /* Who */",
        ),
        (
            props(a=TEXT, b=TEXT) | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "{a?: string, b?: string} /* at least one of: a | b */",
        ),
        (
            props(a=TEXT, b=TEXT, c=TEXT) | {"oneOf": [{"required": ["a", "b"]}, {"required": ["c"]}]},
            "{a?: string, b?: string, c?: string} /* exactly one of: a+b | c */",
        ),
        (
            props(a=TEXT) | {"anyOf": [{"required": ["a"]}, props(("b",), b=NUMBER)]},
            "{a?: string} & ({a: string} | {b: number})",
        ),
    ],
)
def test_unions(schema, expected):
    check(schema, expected)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"enum": ["a", 1, 2.5, True, None]}, "'a' | 1 | 2.5 | true | null"),
        ({"enum": [[1, 2], {"k": "v", "a b": []}]}, "[1, 2] | {k: 'v', 'a b': []}"),
        ({"const": "it's\nso"}, r"'it\'s\nso'"),
        ({"type": "string", "const": "a"}, "'a'"),
        ({"type": "string", "enum": ["a", None]}, "'a'"),
        ({"type": "number", "enum": [1, 2.5]}, "1 | 2.5"),
        ({"type": "string", "enum": [1]}, "never"),
        ({"enum": list("abcdefg")}, "'a'|'b'|'c'|'d'|'e'|'f'|'g'"),
    ],
)
def test_enums_and_consts(schema, expected):
    check(schema, expected)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"allOf": [props(a=TEXT), props(("b",), b=NUMBER)]}, "{a?: string, b: number}"),
        ({"allOf": [props(a=TEXT), {"required": ["a"]}]}, "{a: string}"),
        (props(a=TEXT) | {"allOf": [{"required": ["a"]}]}, "{a: string}"),
        ({"allOf": [props(a=TEXT), props(a=NUMBER)]}, "{a?: string} & {a?: number}"),
        (
            {"allOf": [props(a=TEXT), {"type": "object", "additionalProperties": NUMBER}]},
            "{a?: string} & {[key: string]: number}",
        ),
        ({"allOf": [TEXT, {"minLength": 2}]}, "string /* >=2 chars */"),
        (
            {"allOf": [{"anyOf": [props(a=TEXT), props(b=TEXT)]}, props(c=TEXT)]},
            "({a?: string} | {b?: string}) & {c?: string}",
        ),
        ({"allOf": [{}, TEXT]}, "string"),
        ({"type": "string", "anyOf": [TEXT, NUMBER]}, "string & (string | number)"),
        ({"type": "number", "anyOf": [NUMBER, {"type": "integer"}]}, "number | integer"),
        ({"allOf": [False, TEXT]}, "never"),
    ],
)
def test_all_of_is_an_intersection_merged_where_nothing_is_lost(schema, expected):
    check(schema, expected)


@pytest.mark.parametrize("schema", [{}, True, {"title": "Any"}, {"default": None}, {"$schema": "x"}])
def test_unknown_stands_for_a_property_that_may_be_anything(schema):
    check(props(any=schema), "{any?: unknown}")


def test_false_and_the_negation_of_everything_are_never():
    check(props(a=False, b={"not": {}}), "{a?: never, b?: never}")

"""JSON Schema as TypeScript: references, in place or by name."""

from __future__ import annotations

import json

import pytest

from mcpx.core.rendering.typescript import SchemaConverter

convert = SchemaConverter.convert
TEXT = {"type": "string"}
LONG = {"type": "object", "properties": {"first_long_name": TEXT, "second_long_name": TEXT}}
LONG_TYPE = "{first_long_name?: string, second_long_name?: string}"


def ref(to: str) -> dict[str, object]:
    return {"$ref": to}


@pytest.mark.parametrize("home", ["$defs", "definitions"])
def test_a_reference_used_once_is_written_in_place(home):
    schema = {"type": "object", "properties": {"a": ref(f"#/{home}/L")}, home: {"L": LONG}}
    assert convert(schema) == f"{{a?: {LONG_TYPE}}}"


def test_a_long_type_used_twice_gets_a_name_and_a_short_one_does_not():
    uses = {"a": ref("#/$defs/L"), "b": ref("#/$defs/L"), "c": ref("#/$defs/S"), "d": ref("#/$defs/S")}
    schema = {"type": "object", "properties": uses, "$defs": {"L": LONG, "S": TEXT}}
    assert convert(schema) == f"{{a?: L, b?: L, c?: string, d?: string}} where L = {LONG_TYPE}"


def test_a_recursive_schema_becomes_a_named_type():
    node = {
        "type": "object",
        "description": "A node",
        "properties": {"value": TEXT, "kids": {"type": "array", "items": ref("#/$defs/Node")}},
        "required": ["value"],
    }
    schema = {"type": "object", "properties": {"tree": ref("#/$defs/Node")}, "$defs": {"Node": node}}
    assert convert(schema) == "{tree?: Node} where Node = {value: string, kids?: Node[]} /* A node */"


def test_two_types_that_recur_through_each_other_are_named_once_each():
    schema = {
        "$ref": "#/$defs/A",
        "$defs": {
            "A": {"type": "object", "properties": {"b": ref("#/$defs/B"), "c": ref("#/$defs/B")}},
            "B": {"type": "object", "properties": {"the_way_back_to_where_it_all_began": ref("#/$defs/A")}},
        },
    }
    out = convert(schema)
    assert out.startswith("A where ")
    assert "A = {b?: B, c?: B}" in out
    assert "B = {the_way_back_to_where_it_all_began?: A}" in out


def test_the_root_can_refer_to_itself():
    schema = {"type": "object", "properties": {"next": ref("#")}}
    assert convert(schema) == "Root where Root = {next?: Root}"


def test_any_local_pointer_is_followed_with_its_escapes():
    schema = {
        "type": "object",
        "properties": {"a/b": {"type": "integer"}, "c": ref("#/properties/a~1b"), "d": ref("#/$defs/x%20y")},
        "$defs": {"x y": {"type": "boolean"}},
    }
    assert convert(schema) == "{'a/b'?: integer, c?: integer, d?: boolean}"


def test_a_pointer_through_a_list_and_one_that_starts_with_the_roots_id_are_followed():
    schema = {
        "$id": "https://example.org/s.json",
        "type": "object",
        "properties": {"a": {"anyOf": [TEXT, LONG]}, "b": ref("#/properties/a/anyOf/1")},
    }
    assert convert(schema) == f"{{a?: string | {LONG_TYPE}, b?: {LONG_TYPE}}}"
    schema["properties"] = {"a": ref("https://example.org/s.json#/$defs/T")}
    assert convert(schema | {"$defs": {"T": TEXT}}) == "{a?: string}"


def test_words_beside_a_reference_are_kept():
    picked = ref("#/$defs/E") | {"description": "Pick one", "default": "a"}
    schema = {
        "type": "object",
        "properties": {"x": picked},
        "$defs": {"E": {"enum": ["a", "b"], "title": "E"}},
    }
    assert convert(schema) == "{x?: 'a' | 'b' /* Pick one; default 'a' */}"


def test_names_are_identifiers_free_of_the_types_own_words_and_unique():
    homes = {"$defs": {"string": LONG, "a.b": LONG}, "definitions": {"a.b": LONG}}
    pointers = ["#/$defs/string", "#/$defs/a.b", "#/definitions/a.b"]
    uses = {f"p{n}": ref(to) for n, to in enumerate(pointers * 2)}
    out = convert({"type": "object", "properties": uses} | homes)
    head, named = out.split(" where ")
    assert head == "{p0?: T_string, p1?: a_b, p2?: a_b2, p3?: T_string, p4?: a_b, p5?: a_b2}"
    assert named == f"T_string = {LONG_TYPE}; a_b = {LONG_TYPE}; a_b2 = {LONG_TYPE}"


@pytest.mark.parametrize(
    "to", ["https://example.org/s.json", "other.json#/a", "#/$defs/missing", 5, "#/required"]
)
def test_a_reference_that_leads_out_or_nowhere_stands_as_json(to):
    schema = {"type": "object", "properties": {"a": {"$ref": to}, "b": TEXT}, "required": ["b"]}
    assert convert(schema) == f"{{a?: {json.dumps({'$ref': to}, separators=(',', ':'))}, b: string}}"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"not": ref("#/$defs/T")}}, "$defs": {"T": TEXT}},
        {"properties": {"a": ref("#anchor")}, "$defs": {"T": {"$anchor": "anchor"}}},
        {"properties": {"a": {"$id": "https://example.org/", "items": ref("#/x")}}, "x": TEXT},
        {"$ref": "#"},
        {"$ref": "#/$defs/A", "$defs": {"A": ref("#/$defs/B"), "B": ref("#/$defs/A")}},
    ],
)
def test_where_json_of_a_part_would_lose_what_it_refers_to_the_whole_stands_as_json(schema):
    assert json.loads(convert(schema)) == schema

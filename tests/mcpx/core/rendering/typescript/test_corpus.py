"""JSON Schema as TypeScript: the saving, and no unasked `unknown`, over the corpus of real tools."""

from __future__ import annotations

import json
import re
import statistics
from typing import Any

import pytest

from mcpx.core.rendering.typescript import SchemaConverter
from tests import tokens

pytestmark = pytest.mark.corpus
convert = SchemaConverter.convert

SILENT = {"title", "description", "default", "examples", "deprecated", "$schema", "$id", "$comment", "$defs"}


@pytest.fixture(scope="module")
def schemas() -> list[Any]:
    return [row["inputSchema"] for rows in tokens.corpus().values() for row in rows]


def test_the_median_schema_loses_at_least_60_percent_of_its_tokens(schemas):
    before = tokens.count([json.dumps(s, separators=(",", ":"), ensure_ascii=False) for s in schemas])
    after = tokens.count([convert(s) for s in schemas])
    assert len(schemas) == 527
    for encoding, counts in before.items():
        savings = sorted(1 - new / old for old, new in zip(counts, after[encoding], strict=True))
        total = 1 - sum(after[encoding]) / sum(counts)
        median, p10 = statistics.median(savings), savings[len(savings) // 10]
        print(f"{encoding}: median {median:.4f}, p10 {p10:.4f}, total {total:.4f}")
        assert median >= 0.60
        assert total >= 0.40
    assert set(before) == {"o200k_base", "cl100k_base"}


def test_every_schema_converts_to_one_line_without_json_in_it(schemas):
    for schema in schemas:
        out = convert(schema)
        assert len(out.splitlines()) == 1
        stripped = stripped_of_prose(out)
        assert stripped.startswith(("{", "object"))
        assert '"' not in stripped


def test_every_property_name_of_every_schema_is_there(schemas):
    names = [(schema, name) for schema in schemas for name in schema.get("properties", {})]
    assert len(names) > 500
    for schema, name in names:
        assert re.search(rf"[{{ ']{re.escape(name)}'?\??: ", convert(schema))


def test_no_unknown_that_the_schema_did_not_ask_for(schemas):
    asked = [unknowns_asked_for(schema) for schema in schemas]
    written = [len(re.findall(r"\bunknown\b", stripped_of_prose(convert(schema)))) for schema in schemas]
    assert sum(asked) > 0
    assert all(has <= may for has, may in zip(written, asked, strict=True))
    assert all(has > 0 for has, may in zip(written, asked, strict=True) if may)


def stripped_of_prose(text: str) -> str:
    """The type alone: no comments, no string literals."""
    return re.sub(r"/\* .*? \*/|'(?:\\.|[^'\\])*'", "", text)


def unknowns_asked_for(schema: Any) -> int:
    """Places where a schema accepts anything at all."""
    if schema is True or (isinstance(schema, dict) and SILENT.issuperset(schema)):
        return 1
    if not isinstance(schema, dict):
        return 0
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
    count = sum(map(unknowns_asked_for, properties.values()))
    count += sum(name not in properties for name in schema.get("required", []))
    if properties or rest not in (True, {}):
        count += unknowns_asked_for(rest)
    for word in ("anyOf", "oneOf", "allOf"):
        count += sum(map(unknowns_asked_for, schema.get(word, [])))
    types = schema.get("type", [])
    if types == "array" or "array" in types:
        count += unknowns_asked_for(schema.get("items", True))
    return count

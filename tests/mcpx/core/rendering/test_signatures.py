from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.rendering.signatures import first_sentence, in_order, is_deprecated, line_parts, signature
from tests.mcpx.core.rendering.snapshots import corpus, tool


def typed(schema, *required, root=None):
    """How a parameter `p` of that schema is shown."""
    whole = {"properties": {"p": schema}, "required": list(required)} | (root or {})
    return signature(ToolInfo(server_name="", name="t", input_schema=whole), typed=True)[2:-1]


def described(description=None, **fields):
    return ToolInfo(server_name="", name="t", input_schema={}, description=description, **fields)


def test_required_parameters_stand_first_each_with_its_type():
    schema = {
        "properties": {"max_count": {"type": "integer", "default": 10}, "repo_path": {"type": "string"}},
        "required": ["repo_path"],
    }
    log = ToolInfo(server_name="git", name="git_log", input_schema=schema)
    assert signature(log, typed=True) == "git_log(repo_path: string, max_count?: integer)"
    assert signature(log) == "git_log(repo_path, max_count?)"


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "string"}, "p?: string"),
        ({"type": ["string", "null"]}, "p?: string"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "p?: integer"),
        ({"type": "array", "items": {"type": "string"}}, "p?: string[]"),
        ({"type": "array"}, "p?: any[]"),
        ({"items": {"type": "string", "enum": ["a", "b"]}}, 'p?: ("a"|"b")[]'),
        ({"enum": ["left", "right"], "type": "string"}, 'p?: "left"|"right"'),
        ({"enum": [f"value-{i}" for i in range(30)]}, "p?: string"),
        ({"enum": [1, 2.5, True, None]}, "p?: 1|2.5|true"),
        ({"anyOf": [{"const": "a"}, {"const": "b"}]}, 'p?: "a"|"b"'),
        ({"oneOf": [{"const": f"value-{i}"} for i in range(30)]}, "p?: string"),
        (
            {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
            "p?: string[]|string",
        ),
        ({"anyOf": [{"enum": [f"{i}-{j}-value" for j in range(3)]} for i in range(4)]}, "p?: any"),
        ({"anyOf": [{"type": "string"}, {}]}, "p?"),
        ({"properties": {"a": {}}}, "p?: object"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "p?: object"),
        ({}, "p?"),
        (True, "p?"),
        ({"type": "whatever"}, "p?"),
        ({"type": "null"}, "p?: null"),
        ({"allOf": [{"type": "boolean"}]}, "p?: boolean"),
    ],
)
def test_types(schema, shown):
    assert typed(schema) == shown


def test_null_is_said_of_a_required_parameter():
    assert typed({"type": ["string", "null"]}, "p") == "p: string|null"


def test_references_are_followed_inside_the_schema_and_never_for_ever():
    defs = {
        "Mode": {"enum": ["r", "w"]},
        "Loop": {"$ref": "#/$defs/Loop"},
        "Tree": {"anyOf": [{"$ref": "#/$defs/Tree"}] * 6},
    }
    assert typed({"$ref": "#/$defs/Mode"}, root={"$defs": defs}) == 'p?: "r"|"w"'
    assert typed({"$ref": "#/$defs/Loop"}, root={"$defs": defs}) == "p?"
    assert typed({"$ref": "#/$defs/Tree"}, root={"$defs": defs}) == "p?"
    assert typed({"$ref": "https://example.com/x.json"}) == "p?"


def test_parameters_that_do_not_fit_are_dots_the_required_ones_last():
    log = tool("log", None, "path other", "first second third")
    whole = "log(path, other, first?, second?, third?)"
    assert signature(log, limit=len(whole)) == whole
    assert signature(log, limit=len(whole) - 1) == "log(path, other, first?, second?, ...)"
    assert signature(log, limit=18) == "log(path, ...)"
    assert signature(log, limit=5) == "log(...)"
    assert all(len(signature(log, limit=limit)) <= limit for limit in range(8, 60))


@pytest.mark.parametrize(
    "said",
    [
        described("Read a file as text. DEPRECATED: Use read_text_file instead."),
        described("[DEPRECATED] Use x"),
        described("**Deprecated**: use x"),
        described("\u26a0\ufe0f Deprecated - use x instead."),
        described("Deprecated since 2.0"),
        described("Gets it.\n\nDeprecated: use x"),
        described("This tool is deprecated, use x"),
        described("Gets it", title="Read File (Deprecated)"),
        described("Gets it", annotations={"title": "Read File [deprecated since 2.0]"}),
        described("Gets it", annotations={"deprecated": True}),
        described("Gets it", meta={"example.com/deprecated": "use x"}),
    ],
)
def test_a_deprecated_tool_is_marked(said):
    assert is_deprecated(said)
    assert signature(said) == "t() (deprecated)"


@pytest.mark.parametrize(
    "said",
    [
        described("Lists the deprecated functions of a package."),
        described("Deprecated APIs of a package, by version."),
        described("deprecated-package finder"),
        described("Finds users of an API that is deprecated. Deprecated calls are marked."),
        described("Gets it", title="Deprecated packages (npm)"),
        described("Gets it", annotations={"deprecated": False}, meta={"deprecated": None}),
        described(None),
    ],
)
def test_a_tool_that_speaks_of_deprecation_is_not(said):
    assert not is_deprecated(said)


def test_tools_are_in_the_order_of_their_names_with_deprecated_ones_last():
    tools = [tool("b"), tool("a", "DEPRECATED: use b"), tool("c")]
    assert (
        [one.name for one in in_order(tools)]
        == [one.name for one in in_order(tools[::-1])]
        == ["b", "c", "a"]
    )


def test_a_line_is_the_signature_and_the_first_sentence():
    assert line_parts(tool("t", "It does. And more", "a"), 100) == ("t(a)", "It does")
    assert first_sentence("# Title\nText", 3) == "Tit..."


@pytest.mark.corpus
def test_no_signature_of_the_corpus_breaks_its_line_or_is_cut_below_its_names():
    for one in (one for known in corpus() for one in known.tools.values()):
        shown = signature(one, typed=True)
        assert shown.isprintable()
        assert all(name in shown for name in one.input_schema.get("properties", {}))
        assert not is_deprecated(one)


KEYWORDS = "type enum const anyOf oneOf allOf items properties required $ref title".split()  # noqa: SIM905
keys = st.sampled_from(KEYWORDS) | st.text(max_size=4)
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=30,
)


@given(st.dictionaries(st.text(max_size=6), values, max_size=4), st.lists(values, max_size=3), values)
def test_no_schema_breaks_a_signature(properties, required, other):
    schema = {"properties": properties, "required": required, "$defs": other, "enum": other}
    odd = ToolInfo(
        server_name="", name="t", input_schema=schema, meta={"x": other}, annotations={"title": other}
    )
    for limit in (None, 20):
        shown = signature(odd, typed=True, limit=limit)
        assert shown.isprintable()
    assert len(signature(odd, typed=True, limit=20).removesuffix(" (deprecated)")) <= 20


def test_a_value_cannot_look_like_another_entry():
    shown = typed({"enum": ["x\n## admin", "\u202ey"]})
    assert shown.isprintable()
    assert json.loads(shown.removeprefix("p?: ").split("|")[0]) == "x\n## admin"

"""JSON as people have it: values, places, and the names of slips."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.text.jsonc import JSONCError, Node, excerpt, line_and_column, loads, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
GAPS = st.lists(
    st.sampled_from(["", " ", "\t", "\n", "\r\n", '// x, "y" {\n', "/* ] , */", "/**/"]), max_size=3
)


@st.composite
def jsonc_texts(draw: Any) -> tuple[str, Any]:
    """A value, and a text of it with gaps, comments and trailing commas."""
    gap = lambda: "".join(draw(GAPS))  # noqa: E731

    def written(value: Any) -> str:
        trailing = draw(st.sampled_from(["", ","]))
        if isinstance(value, dict):
            inner = ",".join(
                f"{gap()}{json.dumps(k)}{gap()}:{gap()}{written(v)}{gap()}" for k, v in value.items()
            )
            return "{" + inner + (trailing if value else "") + gap() + "}"
        if isinstance(value, list):
            inner = ",".join(f"{gap()}{written(v)}{gap()}" for v in value)
            return "[" + inner + (trailing if value else "") + gap() + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    value = draw(VALUES)
    return draw(st.sampled_from(["", "\ufeff"])) + gap() + written(value) + gap(), value


@given(jsonc_texts())
def test_comments_and_trailing_commas_do_not_change_the_value(case: tuple[str, Any]) -> None:
    text, value = case
    assert parse(text).value == value
    assert loads(text) == value


@given(jsonc_texts())
def test_each_span_holds_its_value(case: tuple[str, Any]) -> None:
    text, _ = case

    def verify(node: Node) -> None:
        assert loads(text[node.start : node.end]) == node.value
        for member in node.members:
            assert json.JSONDecoder().raw_decode(text, member.key_start)[0] == member.key
            verify(member.node)
        for item in node.items:
            verify(item)

    verify(parse(text))


@given(st.text(alphabet="{}[]\",:/* \n\\abtrue10-.\ufeff'#", max_size=30))
def test_any_text_is_a_value_or_a_named_slip(text: str) -> None:
    try:
        value = parse(text).value
    except JSONCError:
        with pytest.raises(JSONCError) as caught:
            loads(text)
        assert 0 <= caught.value.offset <= len(text)
        assert caught.value.problem
    else:
        assert loads(text) == value


SLIPS = [
    ("", "the file is empty", 1, 1),
    (" \n", "the file is empty", 1, 1),
    ("{“a”: 1}", "curly quotes", 1, 2),
    ("{'a': 1}", "single quotes", 1, 2),
    ("{`a`: 1}", "backquotes", 1, 2),
    ('{\n\u00a0 "a": 1}', "no-break space (U+00A0)", 2, 1),
    ('{\u200b"a": 1}', "invisible character (U+200B)", 1, 2),
    ('{\u3000"a": 1}', "unusual space (U+3000)", 1, 2),
    ('{"a": "C:\\Users\\me"}', r'double it, also in paths: "C:\\Users"', 1, 10),
    ('{"a": "C:\\users"}', r'double it, also in paths: "C:\\Users"', 1, 10),
    ('{"a": "it\\\'s"}', "without a backslash", 1, 10),
    ('{"a": "x\ty"}', r"write \t", 1, 9),
    ('{"a": "x\x01y"}', r"write \u0001", 1, 9),
    ('{\n  "a": 1\n  "b": 2}', "a comma is missing here", 2, 9),
    ('{"a": 1 // one\n "b": 2}', "a comma is missing here", 1, 8),
    ('{"a": {}\n{"b": 2}}', "a comma is missing here", 1, 9),
    ("[1 2]", "a comma is missing here", 1, 3),
    ('{"a": "x,\n "b": 2}', "the closing quote of this string is missing", 1, 7),
    ('{"a": "x', "the closing quote of this string is missing", 1, 7),
    ('{"command: "npx"}', "a quote too many or too few", 1, 13),
    ('{"a": "say "hi""}', "a quote too many or too few", 1, 13),
    ('{command": "npx"}', "the opening quote is missing", 1, 2),
    ('{"a": npx"}', "the opening quote is missing", 1, 7),
    ('{command: "npx"}', '"command"', 1, 2),
    ('{"a" 1}', "a colon is missing", 1, 5),
    ('{"a" "b"}', "a colon is missing", 1, 5),
    ('{"a" = 1}', "by a colon, not by =", 1, 6),
    ('{"a"}', "a colon and a value are missing", 1, 5),
    ('{"a": }', "the value is missing after the colon", 1, 7),
    ('{"a": , "b": 1}', "the value is missing before this comma", 1, 7),
    ('{"a": 1,, "b": 2}', "a comma too many", 1, 9),
    ("[,]", "a comma too many", 1, 2),
    ('{"a": 1; "b": 2}', "not by ;", 1, 8),
    ('{"a": npx}', "a string is written in double quotes", 1, 7),
    ('{"a": True}', "write true here", 1, 7),
    ('{"a": None}', "write null here", 1, 7),
    ('{"a": NaN}', "NaN and Infinity", 1, 7),
    ('{"a": -Infinity}', "NaN and Infinity", 1, 7),
    ('{"a": 010}', "no JSON number", 1, 7),
    ('{"a": +1}', "no JSON number", 1, 7),
    ('{"a": .5}', "no JSON number", 1, 7),
    ('{"a": 0x1F}', "no JSON number", 1, 7),
    ('{ # note\n"a": 1}', "begins with // here, not with #", 1, 3),
    ('{ /* note "a": 1}', "this comment is not closed", 1, 3),
    ('{ / note\n"a": 1}', "expected a key, found /", 1, 3),
    ('{\n "a": {\n', "it ends too early: the { of line 2 is not closed", 3, 1),
    ('{"a": [1, 2}', "expected ] here: the [ of line 1 is not closed", 1, 12),
    ('{"a": 1}}', "one } too many", 1, 9),
    ('{"a": 1} {"b": 2}', "something follows after the end", 1, 10),
    ('"mcpServers": {}', "are the braces around it missing?", 1, 13),
    ('# mine\n[mcp_servers.git]\ncommand = "x"', "this looks like TOML, not JSON", 1, 1),
    ('model = "x"\n', "this looks like TOML, not JSON", 1, 1),
    ("mcpServers:\n  git:\n    command: x\n", "this looks like YAML, not JSON", 1, 1),
    ("---\na: 1\n", "this looks like YAML, not JSON", 1, 1),
    ("[" * 500, "nested too deeply", 1, 129),
]


@pytest.mark.parametrize(("text", "problem", "line", "column"), SLIPS, ids=[each[0][:30] for each in SLIPS])
def test_a_slip_is_named_at_its_place(text: str, problem: str, line: int, column: int) -> None:
    with pytest.raises(JSONCError) as caught:
        loads(text)
    assert problem in caught.value.problem
    assert line_and_column(text, caught.value.offset) == (line, column)


def test_repeated_keys_are_remembered_and_the_last_counts() -> None:
    node = parse('{"a": 1, "b": 2, "a": 3, // x\n}')
    assert node.value == {"a": 3, "b": 2}
    assert node.value.repeated == ["a"]
    assert (found := node.find(["a"]))
    assert found.value == 3
    assert loads('{"a": 1, "a": 2}').repeated == ["a"]


def test_a_value_is_found_by_its_path() -> None:
    node = parse('{"a": [1, {"b": "x"}]}')
    assert (found := node.find(["a", 1, "b"]))
    assert found.value == "x"
    for path in (["b"], ["a", 2], ["a", -3], ["a", 0, "b"], ["a", "b"]):
        assert node.find(path) is None


def test_a_number_with_more_digits_than_python_converts_is_a_float() -> None:
    assert loads("1" * 5000 + "//") == float("inf")


@pytest.mark.parametrize(
    ("text", "offset", "place"),
    [
        ("a\r\nb", 3, (2, 1)),
        ("a\rb", 2, (2, 1)),
        ("a\n\nb", 3, (3, 1)),
        ("\ufeffab", 1, (1, 1)),
        ("", 0, (1, 1)),
    ],
)
def test_lines_end_as_on_any_system(text: str, offset: int, place: tuple[int, int]) -> None:
    assert line_and_column(text, offset) == place


def test_an_excerpt_is_the_line_and_a_caret_beneath() -> None:
    assert excerpt('{\r\n\t"a": x\r\n}', 9) == ' "a": x\n      ^'
    assert excerpt("ab", 2) == "ab\n  ^"
    assert excerpt('{"日本": x}', 7) == '{"日本": x}\n         ^'


def test_an_excerpt_of_a_long_line_is_cut_around_the_place() -> None:
    line, caret = excerpt("x" * 500 + "!" + "y" * 500, 500).split("\n")
    assert len(line) <= 102
    assert line[caret.index("^")] == "!"
    assert line[0] == line[-1] == "…"


def test_an_excerpt_shows_nothing_that_a_terminal_obeys() -> None:
    assert excerpt("\x1b[2J\u202e!", 5) == "·[2J·!\n     ^"

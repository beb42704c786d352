"""JSON edited in place: exactly the value that was meant changes, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpx.setup.documents import DocumentError
from mcpx.setup.documents.editing import read
from tests.mcpx.setup.documents.edits import append_item, remove_member, set_member

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)
KEYS = st.sampled_from("abcd")


@st.composite
def files(draw: Any) -> tuple[bytes, dict[str, Any]]:
    """An object with an object `a` and a list `b`, written in any style that people and programs have."""
    value = {**draw(OBJECTS), "x": draw(SCALARS), "a": draw(OBJECTS), "b": draw(st.lists(VALUES, max_size=3))}
    step = draw(st.sampled_from(["", "  ", "    ", "\t", None]))
    eol = draw(st.sampled_from(["\n", "\r\n"]))
    colon = draw(st.sampled_from([": ", ":"]))
    trailing = draw(st.booleans())
    comments = draw(st.booleans())

    def note() -> str:
        choices = ["", "", ' // n, "o": {', " /* n */"] if step is not None else ["", " /* n, */"]
        return draw(st.sampled_from(choices)) if comments else ""

    def written(value: Any, indent: str) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict):
            parts = [json.dumps(k) + colon + written(v, indent + (step or "")) for k, v in value.items()]
        else:
            parts = [written(v, indent + (step or "")) for v in value]
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        if not parts:
            return opening + closing
        if step is None:
            return opening + ", ".join(parts) + ("," if trailing else "") + note() + closing
        inner = "".join(
            f"{eol}{indent}{step}{part}{',' if trailing or index < len(parts) - 1 else ''}{note()}"
            for index, part in enumerate(parts)
        )
        return opening + note() + inner + eol + indent + closing

    text = (note() + eol if step is not None else "") + written(value, "") + draw(st.sampled_from(["", eol]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
    return text.encode(encoding, "surrogatepass"), value


@settings(max_examples=30, deadline=None)
@given(files(), KEYS, VALUES)
def test_what_is_set_is_there_and_its_removal_gives_the_bytes_back(
    file: tuple[bytes, dict[str, Any]], key: str, new: Any
) -> None:
    data, value = file
    assert read(data, "json") == value
    after = set_member(data, ("a", key), new, "json")
    assert read(after, "json") == {**value, "a": {**value["a"], key: new}}
    if key not in value["a"]:
        assert remove_member(after, ("a", key), "json") == data


@settings(max_examples=30, deadline=None)
@given(files(), VALUES)
def test_what_is_set_can_be_set_back(file: tuple[bytes, dict[str, Any]], new: Any) -> None:
    data, value = file
    after = set_member(data, ("x",), new, "json")
    assert read(after, "json") == {**value, "x": new}
    assert set_member(after, ("x",), value["x"], "json") == data


@settings(max_examples=30, deadline=None)
@given(files(), st.data())
def test_a_removal_takes_nothing_else(file: tuple[bytes, dict[str, Any]], data: st.DataObject) -> None:
    before, value = file
    key = data.draw(st.sampled_from(sorted(value)))
    after = remove_member(before, (key,), "json")
    assert read(after, "json") == {name: each for name, each in value.items() if name != key}
    kept = iter(before.decode("utf-16" if before[:2] == b"\xff\xfe" else "utf-8"))
    assert all(char in kept for char in after.decode("utf-16" if before[:2] == b"\xff\xfe" else "utf-8"))


@settings(max_examples=30, deadline=None)
@given(files(), VALUES)
def test_an_appended_item_is_the_last_and_can_be_removed(
    file: tuple[bytes, dict[str, Any]], new: Any
) -> None:
    data, value = file
    after = append_item(data, ("b",), new, "json")
    assert read(after, "json") == {**value, "b": [*value["b"], new]}
    assert remove_member(after, ("b", len(value["b"])), "json") == data


NEW = {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}
ADDED = {
    "no blanks": (
        '{"s":{"o":1}}',
        '{"s":{"o":1,"n":{"command":"npx","args":["-y","x"],"env":{"K":"v"}}}}',
    ),
    "one line": (
        '{ "s": {} }\n',
        '{ "s": {"n": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}} }\n',
    ),
    "comments and tabs": (
        """{
	"s": {
		"o": 1 // one
		// "p": 2
	} // end
}""",
        """{
	"s": {
		"o": 1, // one
		"n": {
			"command": "npx",
			"args": ["-y", "x"],
			"env": {
				"K": "v"
			}
		}
		// "p": 2
	} // end
}""",
    ),
    "a trailing comma, and an object with a comment": (
        """{
    "s": {
        // none yet
    },
}""",
        """{
    "s": {
        // none yet
        "n": {
            "command": "npx",
            "args": ["-y", "x"],
            "env": {
                "K": "v"
            }
        }
    },
}""",
    ),
    "as programs write": (
        """{
  "s": {
    "o": [
      "a"
    ]
  }
}
""",
        """{
  "s": {
    "o": [
      "a"
    ],
    "n": {
      "command": "npx",
      "args": [
        "-y",
        "x"
      ],
      "env": {
        "K": "v"
      }
    }
  }
}
""",
    ),
}


@pytest.mark.parametrize("case", ADDED)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_what_is_added_looks_like_its_siblings(case: str, line_end: str) -> None:
    before, after = (text.replace("\n", line_end) for text in ADDED[case])
    assert set_member(before.encode(), ("s", "n"), NEW, "json").decode() == after


@pytest.mark.parametrize("blank", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_becomes_an_object(blank: bytes) -> None:
    assert read(blank, "json") == {}
    after = b'{\n  "s": {\n    "n": [1, "x"]\n  }\n}\n'
    assert set_member(blank, ("s", "n"), [1, "x"], "json") == blank + after


REMOVED = [
    ('{"n": 1}', "{}"),
    ('{"a": 1, "n": 2}', '{"a": 1}'),
    ('{"n": 1, "a": 2}', '{"a": 2}'),
    ('{\n  "a": 1, // one\n  "n": 2 // two\n}', '{\n  "a": 1 // one\n}'),
    ('{\n  "a": 1, // one\n  "n": 2, // two\n}', '{\n  "a": 1, // one\n}'),
    ('{\n  // above\n  "n": {\n    "x": 1\n  },\n\n  "b": 2\n}', '{\n  // above\n\n  "b": 2\n}'),
    ('{\n  "a": 1\n  , "n": 2\n}', '{\n  "a": 1\n}'),
    ('{"a": 1, // one\n "n": 2 }', '{"a": 1 // one\n }'),
    ('{"n": 1, "a": 2, "n": 3}', '{"a": 2}'),
    ('{\n  "n": 1\n}', "{}"),
    ('{\n  "n": 1\n  // kept\n}', "{\n  // kept\n}"),
]


@pytest.mark.parametrize(("before", "after"), REMOVED)
def test_a_removal_takes_its_comma_and_its_line(before: str, after: str) -> None:
    assert remove_member(before.encode(), ("n",), "json").decode() == after


def test_a_null_on_the_way_becomes_an_object() -> None:
    assert set_member(b'{"s": null}', ("s", "n"), 1, "json") == b'{"s": {"n": 1}}'
    assert append_item(b'{"s": null}', ("s",), 1, "json") == b'{"s": [1]}'


def test_an_equal_value_and_an_absent_one_change_nothing() -> None:
    data = b'{"a":  {"b" : [1,2]}}'
    assert set_member(data, ("a", "b"), [1, 2], "json") == data
    assert remove_member(data, ("a", "c"), "json") == data
    assert remove_member(data, ("x", "c"), "json") == data


@pytest.mark.parametrize(
    ("data", "path"),
    [(b"[]", ("a",)), (b'{"a": "x"}', ("a", "b")), (b'{"a": [1]}', ("a", 1)), (b'{"a": {}}', ("a", 0))],
)
def test_a_path_through_something_else_is_refused(data: bytes, path: tuple[str | int, ...]) -> None:
    with pytest.raises(DocumentError, match="cannot be set"):
        set_member(data, path, 1, "json")


def test_a_file_that_is_not_understood_is_refused_with_its_place() -> None:
    with pytest.raises(DocumentError) as caught:
        set_member(b'{\n "a": 1\n "b": 2}', ("c",), 1, "json")
    assert (caught.value.line, caught.value.column) == (2, 8)
    with pytest.raises(DocumentError, match=r"line 2, column 2: this is not text in UTF-8"):
        read(b"{\n \xff}", "json")

"""YAML edited in place: exactly the value that was meant changes, and nothing else."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpx.setup.documents import DocumentError
from mcpx.setup.documents.editing import read
from mcpx.setup.documents.yaml_edits import set_value
from tests.mcpx.setup.documents.edits import append_item, remove_member, set_member

SCALARS = st.none() | st.booleans() | st.integers(-9, 99) | st.text(max_size=4)
LISTS = st.lists(SCALARS, max_size=3)
ENTRIES = st.dictionaries(st.text(min_size=1, max_size=3), SCALARS | LISTS, min_size=1, max_size=3)


@st.composite
def files(draw: Any) -> tuple[bytes, Any]:
    """A mapping with a mapping `s` and a list `l`, written in one of the ways of people and programs."""
    line_end = draw(st.sampled_from(["\n", "\r\n"]))
    step = draw(st.sampled_from([2, 4]))
    dash = draw(st.sampled_from([0, 2]))
    note = lambda: draw(st.sampled_from(["", "", " # n: 1"]))  # noqa: E731
    above = lambda column: draw(st.sampled_from([[], [], [""], [" " * column + "# above"]]))  # noqa: E731

    def flow(value: Any) -> str:
        written = json.dumps(value, ensure_ascii=False)
        return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in written)

    def lines(value: Any, column: int) -> list[str]:
        found = []
        pairs = value.items() if isinstance(value, dict) else (("-", each) for each in value)
        for key, each in pairs:
            head = " " * column + ("- " if isinstance(value, list) else f"{key}: ")
            inner = column + (dash if isinstance(each, list) else step)
            if isinstance(value, list) and isinstance(each, dict) and each:
                first, *rest = lines(each, column + 2)
                while first.strip() == "" or first.strip().startswith("#"):
                    first, *rest = rest
                found += [*above(column), head + first.lstrip(" "), *rest]
            elif isinstance(each, dict | list) and each and isinstance(value, dict) and draw(st.booleans()):
                found += [*above(column), head.rstrip() + note(), *lines(each, inner)]
            else:
                found += [*above(column), head + flow(each) + note()]
        return found

    plain = st.text("abc: #'-é", max_size=5)
    servers = st.dictionaries(
        st.sampled_from("abc"), st.dictionaries(st.sampled_from("kl"), plain | LISTS), max_size=3
    )
    value = {
        "x": draw(plain),
        "s": draw(servers),
        "l": draw(st.lists(plain | st.dictionaries(st.sampled_from("kl"), plain))),
    }
    text = line_end.join([*draw(st.sampled_from([[], ["---"], ["# top"]])), *lines(value, 0)])
    return (text + draw(st.sampled_from(["", line_end, line_end + "# end" + line_end]))).encode(), value


def is_part(less: bytes, more: bytes) -> bool:
    """Whether `more` is `less` with something put in."""
    rest = iter(more)
    return all(byte in rest for byte in less)


@settings(max_examples=15, deadline=None)
@given(files(), ENTRIES)
def test_what_is_set_is_there_and_its_removal_gives_the_bytes_back(file: tuple[bytes, Any], new: Any) -> None:
    data, value = file
    assert read(data, "yaml") == value
    after = set_member(data, ("s", "n"), new, "yaml")
    assert read(after, "yaml") == {**value, "s": {**value["s"], "n": new}}
    assert remove_member(after, ("s", "n"), "yaml") == data


@settings(max_examples=15, deadline=None)
@given(files(), SCALARS | LISTS)
def test_a_value_is_replaced(file: tuple[bytes, Any], new: Any) -> None:
    data, value = file
    for key in value:
        after = set_member(data, (key,), new, "yaml")
        assert read(after, "yaml") == {**value, key: new}


@settings(max_examples=15, deadline=None)
@given(files(), ENTRIES | SCALARS)
def test_an_appended_item_is_the_last_and_can_be_removed(file: tuple[bytes, Any], new: Any) -> None:
    data, value = file
    after = append_item(data, ("l",), new, "yaml")
    assert read(after, "yaml") == {**value, "l": [*value["l"], new]}
    assert remove_member(after, ("l", len(value["l"])), "yaml") == data


@settings(max_examples=15, deadline=None)
@given(files(), st.data())
def test_a_removal_takes_nothing_else(file: tuple[bytes, Any], draw: st.DataObject) -> None:
    data, value = file
    key = draw.draw(st.sampled_from(sorted(value)))
    after = remove_member(data, (key,), "yaml")
    assert read(after, "yaml") == {name: each for name, each in value.items() if name != key}
    assert is_part(after, data)


GOOSE = """# goose
GOOSE_MODEL: "gpt-4o"   # quoted
extensions:
  developer:
    bundled: true
    name: developer
  # mine
  git:
    args:
    - mcp-server-git
    cmd: uvx # from PyPI
    envs: {}

telemetry: false
"""
ENTRY = {
    "cmd": "/bin/mcpx",
    "args": ["attach", "--config", "a b"],
    "envs": {},
    "enabled": True,
    "timeout": 300,
}
ADDED = """  mcpx:
    cmd: /bin/mcpx
    args:
    - attach
    - "--config"
    - "a b"
    envs: {}
    enabled: true
    timeout: 300
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_an_extension_goes_behind_the_others_and_leaves_quotes_and_comments_alone(line_end: str) -> None:
    before = GOOSE.replace("\n", line_end).encode()
    after = set_member(before, ("extensions", "mcpx"), ENTRY, "yaml")
    assert after.decode() == GOOSE.replace("    envs: {}\n", "    envs: {}\n" + ADDED).replace("\n", line_end)
    assert remove_member(after, ("extensions", "mcpx"), "yaml") == before


def test_a_removed_extension_takes_its_lines() -> None:
    after = remove_member(GOOSE.encode(), ("extensions", "git"), "yaml").decode()
    cut = "  git:\n    args:\n    - mcp-server-git\n    cmd: uvx # from PyPI\n    envs: {}\n"
    assert after == GOOSE.replace(cut, "")


CONTINUE = "name: mine\nmcpServers:\n  - name: git # n\n    command: uvx\n    args:\n      - x\n"


def test_a_server_is_appended_to_a_list_of_servers() -> None:
    new = {"name": "mcpx", "command": "/bin/mcpx", "args": ["attach"]}
    after = append_item(CONTINUE.encode(), ("mcpServers",), new, "yaml").decode()
    assert after == CONTINUE + "  - name: mcpx\n    command: /bin/mcpx\n    args:\n      - attach\n"
    assert set_member(after.encode(), ("mcpServers", 1, "command"), "/x", "yaml").decode() == after.replace(
        "/bin/mcpx", "/x"
    )
    assert remove_member(after.encode(), ("mcpServers", 1), "yaml").decode() == CONTINUE


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ("", ("s", "m"), {"a": 1}, "s:\n  m:\n    a: 1\n"),
        ("# only\n", ("s", "m"), [1], "# only\ns:\n  m:\n    - 1\n"),
        ("{}\n", ("s",), {"a": "x"}, "s:\n  a: x\n"),
        ("s:\nt: 1\n", ("s", "m"), "yes", 's:\n  m: "yes"\nt: 1\n'),
        ("s: {} # c\nt: 1\n", ("s", "m"), 1, "s: # c\n  m: 1\nt: 1\n"),
        ("s: {a: 1} # c\n", ("s", "m"), {"b": [1]}, "s: {a: 1, m: {b: [1]}} # c\n"),
        ("s: {a: {}}\n", ("s", "a", "m"), {"b": []}, "s: {a: {m: {b: []}}}\n"),
        (
            "s:\n    a:\n        b: 1\n",
            ("s", "m"),
            {"b": {"c": 1}},
            "s:\n    a:\n        b: 1\n    m:\n        b:\n            c: 1\n",
        ),
        ("s: |\n  x\n  y\nt: 1\n", ("s",), "z", "s: z\nt: 1\n"),
        ("s: |\n  x\n\n", ("t",), "1", 's: |\n  x\nt: "1"\n\n'),
        ("s: x # c", ("s",), {"a": 1}, "s: # c\n  a: 1"),
        ('s: "x"  # c\n', ("s",), 2.0, "s: 2.0  # c\n"),
    ],
)
def test_what_is_set_is_written_as_its_place_asks(before: str, path: Any, value: Any, after: str) -> None:
    assert set_member(before.encode(), path, value, "yaml").decode() == after


@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        ("s:\n  m: 1\n", ("s", "m"), "s: {}\n"),
        ("s: # c\n  m: 1 # d\nt: 1", ("s", "m"), "s: {} # c\nt: 1"),
        ("s: {m: 1, a: 2}\n", ("s", "m"), "s: {a: 2}\n"),
        ("s: {a: 2, m: 1}\n", ("s", "m"), "s: {a: 2}\n"),
        ("s: {m: 1}\n", ("s", "m"), "s: {}\n"),
        ("l:\n- m: 1\n  a: 2\n", ("l", 0, "m"), "l:\n- a: 2\n"),
        ("l:\n- m: 1\n", ("l", 0, "m"), "l:\n- {}\n"),
        ("l:\n- m: 1\n", ("l", 0), "l: []\n"),
        ("l:\n  -\n  - 1\n", ("l", 0), "l:\n  - 1\n"),
        ("m: 1\n", ("m",), ""),
        ("a: &x\n  b: 1\nm: *x\n", ("m",), "a: &x\n  b: 1\n"),
    ],
)
def test_a_removal_leaves_what_its_place_asks(before: str, path: Any, after: str) -> None:
    assert remove_member(before.encode(), path, "yaml").decode() == after


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1\n", "this is not YAML"),
        ("a: 1\na: 2\n", "duplicate key"),
        ("a: 1\n---\nb: 2\n", "this is not YAML"),
        ("a: &a [*a]\n", "refers to itself"),
        ("".join(f"{' ' * depth}a:\n" for depth in range(500)), "this is not YAML"),
        ("a: !!python/object:os.system 1\n", "this is not YAML"),
        ("[" * 5000, "nested too deeply"),
        (
            "\n".join(
                ["a0: &a0 [1]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))]
            ),
            "too large",
        ),
    ],
)
def test_what_is_not_understood_is_refused(text: str, problem: str) -> None:
    with pytest.raises(DocumentError, match=problem):
        read(text.encode(), "yaml")


def test_however_deep_it_is_nested_it_is_edited_or_refused() -> None:
    for depth in range(160, 400, 8):
        text = "".join(f"{' ' * column}a:\n" for column in range(depth)) + " " * depth + "b: 1\n"
        with suppress(DocumentError):
            assert set_value(text, ["z"], 1) == f"{text}z: 1\n"


def test_what_an_alias_stands_for_is_not_changed_by_the_way() -> None:
    shared = b"a: &x\n  k: 1\nb: *x\n"
    with pytest.raises(DocumentError, match="cannot be"):
        set_member(shared, ("a", "k"), 2, "yaml")
    with pytest.raises(DocumentError):
        remove_member(shared, ("a",), "yaml")
    assert set_member(shared, ("b",), 2, "yaml") == b"a: &x\n  k: 1\nb: 2\n"


def test_an_anchor_may_be_given_twice() -> None:
    data = b"a: &x 1\nb: &x 2\nc: *x\ns: {}\n"
    assert read(data, "yaml") == {"a": 1, "b": 2, "c": 2, "s": {}}
    assert read(set_member(data, ("s", "n"), 1, "yaml"), "yaml")["s"] == {"n": 1}

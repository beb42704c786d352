"""TOML edited in place: exactly the value that was meant changes, and nothing else."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpx.setup.documents import DocumentError
from mcpx.setup.documents.editing import read
from tests.mcpx.setup.documents.edits import append_item, remove_member, set_member

SCALARS = st.booleans() | st.integers(-9, 99) | st.text(max_size=4)
LISTS = st.lists(SCALARS, max_size=3)
TABLES = st.dictionaries(st.text(max_size=2), SCALARS | LISTS, max_size=3)
ENTRIES = st.fixed_dictionaries({"command": st.text(max_size=3), "args": LISTS}, optional={"env": TABLES})


def scalar(value: Any) -> str:
    return tomlkit.item(value).as_string()


@st.composite
def files(draw: Any) -> bytes:  # noqa: C901 - a file in all the ways there are
    """A file with tables `s` and `t`, written as people do: headers, dots, braces, comments."""
    line_end = draw(st.sampled_from(["\n", "\r\n"]))
    note = lambda: draw(st.sampled_from(["", "", " # n", ' # [n] = "1"']))  # noqa: E731
    above = lambda: draw(st.sampled_from([[], [], [""], ["# above"], ["", "# [above]"]]))  # noqa: E731

    def value(each: Any) -> str:
        if not isinstance(each, list):
            return scalar(each)
        if draw(st.booleans()):
            return "[" + ", ".join(map(scalar, each)) + "]"
        return "[" + "".join(f"{line_end}  {scalar(item)},{note()}" for item in each) + line_end + "]"

    def table(path: str, entries: dict[str, Any]) -> list[str]:
        lines = [*above(), f"[{path}]{note()}"]
        for key, each in entries.items():
            lines += [*above(), f"{tomlkit.key(key).as_string()} = {value(each)}{note()}"]
        return lines

    lines = []
    for key in draw(st.sets(st.sampled_from("xyz"))):
        lines += [*above(), f"{key} = {value(draw(SCALARS | LISTS))}{note()}"]
    form = draw(st.sampled_from(["headers", "headers", "inline", "dotted", "with s"]))
    if form == "inline":
        inner = draw(TABLES)
        lines += [
            "s = { o = {" + ", ".join(f"{scalar(k)} = {scalar(v)}" for k, v in inner.items()) + "} }" + note()
        ]
    if form == "dotted":
        lines += [f's . "o".a = {value(draw(LISTS))}{note()}', "s.o.b = 1"]
    tables = []
    if form == "with s":
        tables.append(
            table("s", draw(TABLES.map(lambda each: {f"k{key}": value for key, value in each.items()})))
        )
    if form in {"headers", "with s"}:
        tables += [table(f's."o{name}"', draw(TABLES)) for name in draw(st.sets(st.sampled_from("12")))]
    tables.append(table("t", draw(TABLES)))
    for each in draw(st.permutations(tables)):
        lines += each
    end = draw(st.sampled_from(["", line_end, line_end * 2, line_end + "# end"]))
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + (line_end.join(lines) + end).encode()


def plain(data: bytes) -> Any:
    return tomllib.loads(data.decode("utf-8-sig"))


def is_part(less: bytes, more: bytes) -> bool:
    """Whether `more` is `less` with something put in."""
    rest = iter(more)
    return all(byte in rest for byte in less)


@settings(max_examples=30, deadline=None)
@given(files(), ENTRIES)
def test_an_added_table_is_there_and_its_removal_gives_the_bytes_back(
    data: bytes, new: dict[str, Any]
) -> None:
    after = set_member(data, ("s", "n"), new, "toml")
    before = plain(data)
    assert plain(after) == {**before, "s": {**before.get("s", {}), "n": new}}
    assert is_part(data, after)
    if "s" in before:
        assert remove_member(after, ("s", "n"), "toml") == data


@settings(max_examples=30, deadline=None)
@given(files(), SCALARS | LISTS)
def test_an_added_key_is_there_and_its_removal_gives_the_bytes_back(data: bytes, new: Any) -> None:
    before = plain(data)
    for path in (("n",), ("t", "new")):
        after = set_member(data, path, new, "toml")
        meant = {**before, "n": new} if len(path) == 1 else {**before, "t": {**before["t"], "new": new}}
        assert plain(after) == meant
        assert is_part(data, after)
        assert remove_member(after, path, "toml") == data


@settings(max_examples=30, deadline=None)
@given(files(), st.data())
def test_a_removal_takes_nothing_else(data: bytes, draw: st.DataObject) -> None:
    before = plain(data)
    key = draw.draw(st.sampled_from(sorted(before)))
    after = remove_member(data, (key,), "toml")
    assert plain(after) == {name: each for name, each in before.items() if name != key}
    assert is_part(after, data)


@settings(max_examples=30, deadline=None)
@given(files(), TABLES)
def test_a_table_becomes_another_one_key_by_key(data: bytes, new: dict[str, Any]) -> None:
    before = plain(data)
    after = set_member(data, ("t",), new, "toml")
    assert plain(after) == {**before, "t": new}


CODEX = """# mine
model = "o3"

[mcp_servers.git] # versions
command = "uvx"
args = [
  "mcp-server-git", # from PyPI
]

[mcp_servers.git.env]
A = "1"

# about the tools
[tools]
web_search = true
"""


def test_a_server_goes_behind_the_servers_and_leaves_the_comments_where_they_are() -> None:
    entry = {"command": "/bin/mcpx", "args": ["attach"], "env": {"K": "v"}}
    block = (
        '\n[mcp_servers.mcpx]\ncommand = "/bin/mcpx"\nargs = ["attach"]\n\n[mcp_servers.mcpx.env]\nK = "v"\n'
    )
    after = set_member(CODEX.encode(), ("mcp_servers", "mcpx"), entry, "toml").decode()
    assert after == CODEX.replace('A = "1"\n', 'A = "1"\n' + block)
    assert remove_member(after.encode(), ("mcp_servers", "mcpx"), "toml").decode() == CODEX


def test_a_removed_server_takes_its_inner_tables_with_it() -> None:
    after = remove_member(CODEX.encode(), ("mcp_servers", "git"), "toml").decode()
    assert after == '# mine\nmodel = "o3"\n\n# about the tools\n[tools]\nweb_search = true\n'


def test_a_replaced_value_leaves_the_rest_of_its_table() -> None:
    entry = {"command": "npx", "args": ["mcp-server-git"], "env": {"A": "1"}}
    after = set_member(CODEX.encode(), ("mcp_servers", "git"), entry, "toml").decode()
    assert after == CODEX.replace('"uvx"', '"npx"')


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        (b"", ("s", "n"), {"a": 1}, b"[s.n]\na = 1\n"),
        (b"s = {}\n", ("s", "n"), {"a": 1}, b"s = {n = {a = 1}}\n"),
        (b"s = { a = 1 } # x\n", ("s", "b"), [1], b"s = { a = 1, b = [1] } # x\n"),
        (b"s.a.b = 1\nc = 2", ("s", "a", "d"), 3, b"s.a.b = 1\ns.a.d = 3\nc = 2"),
        (b"[t]\na = 1", ("t", "b"), {}, b"[t]\na = 1\nb = {}"),
        (b"[t]\na = 1\n", ("x",), 1, b"x = 1\n[t]\na = 1\n"),
        (b"[t.u]\na = 1\n", ("t", "b"), 1, b"[t.u]\na = 1\n\n[t]\nb = 1\n"),
        (b"a = 1\r\n", ("a b", "c"), {"d": '"\\\n'}, b'a = 1\r\n\r\n["a b".c]\r\nd = "\\"\\\\\\n"\r\n'),
    ],
)
def test_what_is_set_is_written_as_its_place_asks(before: bytes, path: Any, value: Any, after: bytes) -> None:
    assert set_member(before, path, value, "toml") == after


def test_an_item_is_appended_to_a_list() -> None:
    assert append_item(b"a = [1]\n", ("a",), 2, "toml") == b"a = [1, 2]\n"
    assert append_item(b"", ("a",), 2, "toml") == b"a = [2]\n"


def test_what_is_not_understood_is_refused_with_its_place() -> None:
    with pytest.raises(DocumentError, match=r"line 2, column \d+: this is not TOML: ") as caught:
        read(b'a = 1\nb = "x\n', "toml")
    assert caught.value.line == 2
    for data, path in (
        (b"[[a]]\nb = 1\n[[a]]\n", ("a", "b")),
        (b"a = [1]", ("a", 0)),
        (b"a = 1", ("a", "b")),
    ):
        with pytest.raises(DocumentError):
            set_member(data, path, 2, "toml")
    with pytest.raises(DocumentError, match="no null"):
        set_member(b"", ("a",), None, "toml")

"""Taking a change out of a file that was changed again since."""

from __future__ import annotations

import pytest

from mcpx.setup.changes.undoing import take_back
from mcpx.setup.documents.editing import Syntax

BEFORE = b'{\n  "a": 1, // one\n  "s": {\n    "x": {"command": "x"} // ex\n  }\n}\n'
AFTER = b'{\n  "a": 1, // one\n  "s": {\n    "mcpx": {"command": "mcpx"}\n  }\n}\n'


def merged(before: bytes | None, after: bytes | None, found: bytes, syntax: Syntax = "json") -> bytes | None:
    result = take_back(before, after, found, syntax)
    return result.contents if result else None


def test_lines_elsewhere_stay_and_comments_come_back() -> None:
    found = AFTER.replace(b'"a": 1, // one', b'"a": 2, // two')
    assert merged(BEFORE, AFTER, found) == BEFORE.replace(b'"a": 1, // one', b'"a": 2, // two')


def test_on_one_line_the_members_are_merged() -> None:
    before, after = b'{"s": {"x": {}}, "a": 1}', b'{"s": {"mcpx": {"c": 1}}, "a": 1}'
    assert (
        merged(before, after, b'{"s": {"mcpx": {"c": 1}, "y": {}}, "a": 2}')
        == b'{"s": {"y": {}, "x": {}}, "a": 2}'
    )


def test_what_the_change_created_stays_if_others_use_it() -> None:
    found = b'{"s": {"mcpx": {"c": 1}, "y": {"c": 2}}}'
    assert merged(None, b'{"s": {"mcpx": {"c": 1}}}', found) == b'{"s": {"y": {"c": 2}}}'


def test_a_member_that_is_back_already_stays_as_it_is() -> None:
    result = take_back(b'{"s": {"x": 1}}', b'{"s": {"m": 1}}', b'{"s": {"m": 1, "x": 2}}', "json")
    assert result is not None
    assert result.contents == b'{"s": {"x": 2}}'
    assert result.notes == ("s.x is there again, and stays",)


@pytest.mark.parametrize("found", [b'{"s": 1}', b"[]", b"{}", b'{"s": {}}'])
def test_what_is_gone_already_is_not_taken_out(found: bytes) -> None:
    assert merged(b'{"s": {}}', b'{"s": {"m": {"c": 1}}}', found) == found


@pytest.mark.parametrize("found", [b'{"s": {"m": {"c": 1, "more": 2}}}', b"{broken"])
def test_what_cannot_be_said_is_not_guessed(found: bytes) -> None:
    assert merged(b'{"s": {}}', b'{"s": {"m": {"c": 1}}}', found) is None


def test_toml_and_yaml_are_merged_too() -> None:
    before, after = b"[s.x]\nc = 1\n", b"[s.m]\nc = 2\n"
    assert merged(before, after, b"[s.m]\nc = 2\n\n[o]\nc = 3\n", "toml") == b"[s.x]\nc = 1\n\n[o]\nc = 3\n"
    before, after = b"l:\n  - name: x\n    c: 1\n", b"l:\n  - name: m\n    c: 2\n"
    result = merged(before, after, b"l:\n  - name: m\n    c: 2\n  - name: y\n    c: 3\n", "yaml")
    assert result == b"l:\n  - name: y\n    c: 3\n  - name: x\n    c: 1\n"

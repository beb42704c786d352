"""What is left of a message that is nested too deeply: enough to answer it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.wire.malformed import READABLE_DEPTH, shallow

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON, st.integers(1, 20))
def test_what_is_above_the_depth_is_as_it_was(value, more):
    wrapped = value
    for _ in range(more):
        wrapped = [wrapped, "["]
    rest = msgspec.json.decode(shallow(msgspec.json.encode(wrapped)))
    assert rest == cut(wrapped, READABLE_DEPTH)


def cut(value, depth):
    if isinstance(value, list):
        return [cut(each, depth - 1) for each in value] if depth else None
    if isinstance(value, dict):
        return {name: cut(each, depth - 1) for name, each in value.items()} if depth else None
    return value


def test_depth_without_an_end_is_linear():
    line = b'{"id":7,"method":"x","params":{"a":' + b'{"b":[' * 300_000 + b"]}" * 300_000 + b"}}"
    assert msgspec.json.decode(shallow(line))["id"] == 7


@pytest.mark.parametrize("line", [b"]", b"{", b'{"a":"', b"[" * 1000])
def test_what_does_not_close_is_nothing(line):
    assert shallow(line) is None

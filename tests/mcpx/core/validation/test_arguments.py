"""Arguments as they come: read, or refused in words, whatever they are."""

from __future__ import annotations

import msgspec
import pytest

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.validation.arguments import encode_arguments, read_raw_arguments
from mcpx.core.validation.bounds import MAX_INLINE_BYTES, MAX_TEXT_BYTES
from mcpx.errors import CallError, Code, Outcome

TOOL = ToolInfo(server_name="s", name="t", input_schema={"type": "object"})
LARGE = b'{"a":"' + b"x" * MAX_INLINE_BYTES + b'"}'


def refused(raw: bytes) -> str:
    with pytest.raises(CallError) as caught:
        read_raw_arguments(raw, TOOL)
    assert (caught.value.code, caught.value.outcome) == (Code.INVALID_ARGUMENTS, Outcome.NOT_SENT)
    assert "s.t" in str(caught.value)
    return str(caught.value.details["problems"][0]["problem"])


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"a":1e400}', "out of range"),
        (b'{"a":' + b"9" * 5000 + b"}", "out of range"),
        (b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}", "nested too deeply"),
        (b'"{\\"a\\":1e400}"', "not JSON"),
        (b'"' + b"[" * 1000 + b'"', "not JSON"),
        (b"[" + b"1," * MAX_INLINE_BYTES + b"1]", "got an array"),
        (b'"' + b"x" * MAX_INLINE_BYTES + b'"', "not JSON"),
        (b'"[' + b"1," * MAX_INLINE_BYTES + b'1]"', "got an array"),
        (b'"' + b"x" * MAX_TEXT_BYTES + b'"', "send the object itself"),
    ],
)
def test_what_cannot_be_read_is_refused(raw, said):
    assert said in refused(raw)


def test_a_large_object_is_left_as_it_is():
    assert read_raw_arguments(LARGE, TOOL) == (None, LARGE)
    assert read_raw_arguments(msgspec.Raw(b"  " + LARGE), TOOL)[0] is None


def test_a_large_object_in_a_string_becomes_one_line():
    text = b'{\n"a":\r\n"' + b"x" * MAX_INLINE_BYTES + b'"}'
    read, raw = read_raw_arguments(msgspec.json.encode(text.decode()), TOOL)
    assert read is None
    assert b"\n" not in raw
    assert b"\r" not in raw
    assert msgspec.json.decode(raw) == msgspec.json.decode(LARGE)


def deep(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "given",
    [
        {"a": float("inf")},
        {"a": [{"b": float("nan")}], "c": None},
        {"a": deep(100_000)},
        {"a": object()},
        {"a": "\ud800"},
        {(1, 2): 3},
    ],
    ids=["infinity", "nan", "deep", "object", "surrogate", "key"],
)
def test_what_a_program_gives_that_json_cannot_say_is_refused(given):
    with pytest.raises(CallError) as caught:
        encode_arguments(given, server="s", tool="t")
    assert (caught.value.code, caught.value.outcome) == (Code.INVALID_ARGUMENTS, Outcome.NOT_SENT)
    assert len(str(caught.value)) < 400


def test_what_json_can_say_is_encoded():
    assert encode_arguments({"a": None, "b": 10**30}, server="s", tool="t") == b'{"a":null,"b":1%s}' % (
        b"0" * 30
    )

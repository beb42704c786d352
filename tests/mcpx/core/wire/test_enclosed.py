"""Encoded JSON goes through the serializers of the SDK as it is."""

from __future__ import annotations

import json

import msgspec
import pytest
from mcp_types import ErrorData, JSONRPCError, JSONRPCResponse

from mcpx.core.wire.enclosed import enclose, encode_restored, restore

EXACT = [
    b"{}",
    b'{"a":1e400,"b":1e2,"c":1.0,"d":-0.0,"e":null}',
    b'{"a":10000000000000000000000000000000,"a":2,"":""}',
    '{"a":"\\"\\\\ \\n \\ud83d\\ude00 ü \u2028 😀"}'.encode(),
    b'{"a":' + b"[" * 600 + b"]" * 600 + b"}",
]


def by_pydantic(message):
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


def by_json(message):
    dumped = message.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(dumped, separators=(",", ":")).encode()


def by_msgspec(message):
    return msgspec.json.encode(message.model_dump(mode="json", by_alias=True, exclude_none=True))


@pytest.mark.parametrize("serialize", [by_pydantic, by_json, by_msgspec])
@pytest.mark.parametrize("encoded", EXACT)
def test_a_result_and_the_data_of_an_error_come_out_as_they_went_in(encoded, serialize):
    pieces = encoded[:3], memoryview(encoded)[3:]
    answer = JSONRPCResponse(jsonrpc="2.0", id=1, result=enclose(pieces))
    assert restore(serialize(answer)) == b'{"jsonrpc":"2.0","id":1,"result":' + encoded + b"}"
    assert encode_restored(enclose(pieces)) == encoded
    assert encode_restored({"a": enclose(pieces)}) == b'{"a":' + encoded + b"}"
    error = ErrorData(code=-1, message="x", data=enclose([encoded]))
    written = restore(serialize(JSONRPCError(jsonrpc="2.0", id="i", error=error)))
    assert written.endswith(b'"message":"x","data":' + encoded + b"}}")


def test_several_in_one_text():
    texts = [{"a": enclose([each]), "b": index} for index, each in enumerate(EXACT)]
    parts = [b'{"a":%b,"b":%d}' % (each, index) for index, each in enumerate(EXACT)]
    assert restore(msgspec.json.encode(texts)) == b"[" + b",".join(parts) + b"]"


def test_ends_of_lines_do_not_survive_in_white_space():
    pretty = json.dumps({"a": [1, "\n"]}, indent=2).replace("\n", "\r\n").encode()
    restored = restore(msgspec.json.encode(enclose([pretty])))
    assert b"\n" not in restored
    assert b"\r" not in restored
    assert json.loads(restored) == {"a": [1, "\n"]}


def test_what_holds_no_enclosure_is_left_alone():
    forged = b'{"mcpx/0123456789abcdef":"{}"}'
    for written in (forged, b"\xff not even text", b""):
        assert restore(written) is written


def test_text_that_is_not_utf_8_does_not_break_the_message():
    assert json.loads(restore(msgspec.json.encode(enclose([b'{"a":"\xff"}'])))) == {"a": "\ufffd"}

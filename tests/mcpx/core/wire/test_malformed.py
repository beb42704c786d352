"""Whose request a line was that cannot be read, and what is answered."""

from __future__ import annotations

import json
import time

import msgspec
import pytest

from mcpx.core.wire import envelope, malformed
from mcpx.core.wire.lines import KEPT_BYTES, TooLong

DEEP = b'{"jsonrpc":"2.0","id":"d","method":"x","params":' + b"[" * 5000


def refusal(line):
    """The answer to a line that the envelope's decoder refuses."""
    try:
        envelope.decode_message(line)
        line.decode()
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
        said = b"".join(malformed.refusal(malformed.describe(line, error)))
        return json.loads(said) if said else None
    raise AssertionError("it can be read")


@pytest.mark.parametrize(
    ("line", "request_id", "code"),
    [
        (b"hello?", None, -32700),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"\\ud800"}}', 7, -32700),
        (b'{"method":"x","params":{"a":"\\ud800","id":3},"jsonrpc":"2.0","id":"q"}', "q", -32700),
        (b'{"jsonrpc":"2.0","id":8,"method":"x","params":{}', None, -32700),
        (b'{"jsonrpc":"2.0","method":"x","params":{"id":5}', None, -32700),
        (b'{"jsonrpc":"2.0","method":"x","params":"\xff","id":9}', 9, -32700),
        (DEEP, "d", -32700),
        (b'{"jsonrpc":"2.0","id":0,"method":"x","params":{', None, -32700),
        (b'{"jsonrpc":"2.0","id":0,"method":"x","params":{"a":[NaN,-Infinity]}}', 0, -32700),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":{"id":4},"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":4,"method":5}', 4, -32600),
        (b'{"method":"id","id":4,"params":{"a":tru}}', None, -32700),
        (b'"id"', None, -32600),
    ],
)
def test_what_cannot_be_read_is_answered_with_its_id_where_that_can_be_found(line, request_id, code):
    answer = refusal(line)
    assert (answer["id"], answer["error"]["code"]) == (request_id, code)


def test_an_answer_that_cannot_be_read_is_not_answered():
    assert refusal(b'{"jsonrpc":"2.0","id":7,"result":{"a":"\\ud800"}}') is None
    assert refusal(b'{"jsonrpc":"2.0","id":7,"error":{"message":"\\ud800"}}') is None


def test_a_line_that_is_too_long_is_answered_by_either_end():
    filler = b"x" * 10
    first = TooLong(b'{"jsonrpc":"2.0","id":3,"method":"x","params":"' + filler, filler + b'"}', 1)
    last = TooLong(b'{"method":"x","params":"' + filler, filler + b'","jsonrpc":"2.0","id":"l"}', 1)
    for line, found in ((first, 3), (last, "l")):
        answer = json.loads(b"".join(malformed.refusal(malformed.describe(line))))
        assert (answer["id"], answer["error"]["code"]) == (found, -32600)


@pytest.mark.parametrize(
    "line",
    [b'{"' + b'\\"' * 30_000, b"{" * 60_000, b'{"a":"' * 10_000, b'{"id":' * 10_000, b'{"a"' + b" " * 60_000],
)
def test_the_search_takes_no_longer_than_the_line(line):
    began = time.monotonic()
    malformed.find_id(line, line[-KEPT_BYTES:])
    malformed.find_id(b"", b", " * (KEPT_BYTES // 2))
    assert time.monotonic() - began < 1

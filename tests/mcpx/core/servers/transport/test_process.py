"""The last words of a process: the last lines, bounded, and without secrets."""

from __future__ import annotations

import tracemalloc

from mcpx.core.config import Redactor
from mcpx.core.servers.transport.process import (
    MAX_LINE_CHARS,
    MAX_TAIL_CHARS,
    MAX_UNENDED_BYTES,
    LastWords,
)


def said(*pieces, redact=str):
    words = LastWords(redact)
    for piece in pieces:
        words.feed(piece)
    words.finish()
    return words.tail()


def test_the_last_five_lines():
    assert said(b"1\n2\n\n3\r\n4\n", b"5\n6") == "2\n3\n4\n5\n6"


def test_a_line_is_cut_and_so_is_the_whole():
    tail = said(*(b"%d" % number + b"x" * 60_000 + b"\n" for number in range(5)))
    assert len(tail) <= MAX_TAIL_CHARS
    assert all(len(line) <= MAX_LINE_CHARS + len("...") for line in tail.splitlines())
    assert tail.splitlines()[-1].startswith("4xxx")
    assert tail.endswith("...")


def test_whole_lines_are_passed_on_and_no_byte_is_lost():
    words = LastWords(str)
    passed = [words.feed(piece) for piece in (b"a", b"b\nc", b"\n\nd")]
    assert passed == [b"", b"ab\n", b"c\n\n"]
    assert words.finish() == b"d"


def test_a_secret_in_two_pieces_is_seen_in_neither():
    redact = Redactor([("KEY", "password")])
    assert said(b"my pass", b"word\n", redact=redact) == "my ***KEY***"
    cut_in_two = b"x" * (MAX_LINE_CHARS - 7) + b"password"
    assert "pass" not in said(cut_in_two, redact=redact)


def test_a_flood_without_a_line_break_is_bounded():
    words = LastWords(str)
    tracemalloc.start()
    try:
        for _ in range(200):
            words.feed(b"x" * MAX_UNENDED_BYTES)
        assert tracemalloc.get_traced_memory()[1] < 20 * MAX_UNENDED_BYTES
    finally:
        tracemalloc.stop()
    assert len(words.tail()) <= MAX_TAIL_CHARS

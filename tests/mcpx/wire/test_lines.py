"""Lines out of chunks: the same however the bytes are cut, in bounded memory."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from mcpx.wire.lines import LineSplitter, TooLong

LIMIT = 20
pieces = st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"x", b"\n")), max_size=20)


def lines_of(chunks, limit=LIMIT) -> list:
    splitter = LineSplitter(limit)
    return [line for chunk in chunks for line in splitter.feed(chunk)]


def shown(lines) -> list:
    """How much of a long line is kept depends on the cuts, but for its beginning."""
    return [("too long", line.head[:LIMIT]) if isinstance(line, TooLong) else line for line in lines]


@given(pieces, st.integers(1, 7))
def test_the_cuts_between_chunks_make_no_difference(chunks, width):
    whole = b"".join(chunks)
    recut = [whole[start : start + width] for start in range(0, len(whole), width)]
    assert shown(lines_of(recut)) == shown(lines_of([whole]))


@given(pieces)
def test_every_line_comes_once_in_order_without_blanks(chunks):
    *ended, _unfinished = b"".join(chunks).split(b"\n")
    expected = [("too long", line[:LIMIT]) if len(line) > LIMIT else line.strip() for line in ended]
    assert shown(lines_of(chunks)) == [line for line in expected if line != b""]


def test_an_unfinished_line_waits_for_its_end():
    splitter = LineSplitter(LIMIT)
    assert splitter.feed(b'{"a":') == []
    assert splitter.feed(b" 1}") == []
    assert splitter.feed(b"\r\n{}") == [b'{"a": 1}']
    assert splitter.feed(b"\n") == [b"{}"]


def test_a_line_of_exactly_the_limit_passes_and_one_more_byte_does_not():
    assert lines_of([b"x" * LIMIT + b"\n"]) == [b"x" * LIMIT]
    (skipped,) = lines_of([b"y" * (LIMIT + 1) + b"\n"])
    assert (skipped.limit, skipped.head[:5]) == (LIMIT, b"yyyyy")


def test_what_follows_a_line_that_was_too_long_is_read_as_usual():
    splitter = LineSplitter(LIMIT)
    for _ in range(100):
        assert splitter.feed(b"x" * 1000) == []
    skipped, good = splitter.feed(b"\nstill here\n")
    assert isinstance(skipped, TooLong)
    assert good == b"still here"


def test_a_line_without_an_end_takes_bounded_memory():
    splitter = LineSplitter(100_000)
    chunk = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(500):
            splitter.feed(chunk)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 300_000
    assert peak < 1_000_000

"""Lines out of chunks, however the chunks fall."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.wire.lines import KEPT_BYTES, LineSplitter, TooLong


def feed(data, cuts, limit=1000):
    """All lines of `data`, fed in pieces that end at `cuts`."""
    splitter, lines, start = LineSplitter(limit), [], 0
    for cut in [*sorted(cuts), len(data)]:
        lines += splitter.feed(data[start:cut])
        start = max(start, cut)
    return lines


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(0, 400)))
def test_lines_do_not_depend_on_how_the_chunks_fall(pieces, cuts):
    data = b"\n".join(pieces) + b"\n"
    expected = [line.strip() for line in data.split(b"\n") if line.strip()]
    assert feed(data, [cut for cut in cuts if cut <= len(data)]) == expected


def test_a_half_line_waits_for_its_end():
    splitter = LineSplitter(100)
    assert splitter.feed(b'{"a":') == []
    assert splitter.feed(b"1}") == []
    assert splitter.feed(b"\n") == [b'{"a":1}']


@given(st.integers(1, 400))
def test_a_line_over_the_limit_is_skipped_to_its_end_and_the_next_is_read(size):
    data = b"x" * 5000 + b"END\nnext\n"
    splitter, lines = LineSplitter(100), []
    for start in range(0, len(data), size):
        lines += splitter.feed(data[start : start + size])
    too_long, following = lines
    assert isinstance(too_long, TooLong)
    assert (too_long.limit, following) == (100, b"next")
    assert too_long.head.startswith(b"xxx")
    assert too_long.tail.endswith(b"xEND")
    assert len(too_long.head) <= KEPT_BYTES
    assert len(too_long.tail) <= KEPT_BYTES


def test_a_skipped_line_is_not_kept_in_memory():
    splitter = LineSplitter(1000)
    for _ in range(1000):
        assert splitter.feed(b"y" * 10_000) == []
    held = sum(len(part) for part in splitter._parts) + len(splitter._tail)
    assert held <= 2 * KEPT_BYTES

"""Event streams: messages are found wherever the bytes are cut, within bounds."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpx.core.servers.transport.http_answers import Event, EventParser, one_event
from mcpx.core.wire.lines import TooLong
from mcpx.core.wire.outgoing import ResponseTooLarge


def parser_of(limit, **options):
    """A parser for a stream without large messages."""
    return EventParser(limit, NotImplemented, **options)


MESSAGES = [b'{"id": 1}', "ünï".encode(), b"x" * 300]


def messages_of(parser, chunk):
    return [event.data for event in parser.feed(chunk) if event.is_message]


@given(
    cuts=st.lists(st.integers(1, 40), min_size=1),
    line_break=st.sampled_from(["\n", "\r\n", "\r"]),
    begin=st.sampled_from(
        [[": hello", ""], ["\ufeff: hello", ""], ["\ufeffevent: other", "data: no", ""], []]
    ),
)
def test_events_are_found_wherever_the_bytes_are_cut(cuts, line_break, begin):
    lines = list(begin)
    for message in MESSAGES:
        lines += ["event: message", f"data: {message.decode()}", ""]
    lines += ["event: other", "data: not for us", "", "data: two", "data:lines", "", "data: incomplete"]
    data = line_break.join(lines).encode()
    events = parser_of(1000)
    found = []
    at = 0
    while at < len(data):
        size = cuts[at % len(cuts)]
        found += messages_of(events, data[at : at + size])
        at += size
    assert found == [*MESSAGES, b"two\nlines"]


@pytest.mark.parametrize(
    "chunk",
    [
        b"data: x\n\n",
        b"event: message\r\ndata: x\r\n\r\n",
        b"id: 5\r\nevent: message\r\ndata:x\r\n\r\n",
        b"id: 5\ndata:  x\n\n",
        b"event: other\ndata: x\n\n",
        b"data: x\n\ndata: y\n\n",
        b"data: x\ndata: y\n\n",
        b"data: x\n",
        b"data: x\r\r",
        b"data:\n\n",
        b"id: 5\ndata: \n\n",
        b": ping\n\n",
        b"id: 5\0\ndata: x\n\n",
    ],
)
def test_one_event_in_the_usual_spelling_is_read_as_the_parser_reads_it(chunk):
    found = one_event(chunk)
    if found is None:
        return
    (same,) = parser_of(1000).feed(chunk)
    assert (found.data, found.fields.get(b"id"), found.is_message) == (
        same.data,
        same.fields.get(b"id"),
        same.is_message,
    )


def test_a_mark_of_the_byte_order_may_stand_at_the_beginning_and_nowhere_else():
    parser = parser_of(100)
    assert messages_of(parser, b"\xef\xbb") == []
    assert messages_of(parser, b"\xbfdata: x\n\n\xef\xbb\xbfdata: y\n\ndata: z\n\n") == [b"x", b"z"]


def test_an_id_with_nul_is_none():
    (event,) = parser_of(100).feed(b"id: a\0b\ndata: x\n\n")
    assert event == Event({}, b"x")


def test_the_usual_spellings_of_one_event_are_known():
    assert one_event(b"data: x\n\n") == Event({}, b"x")
    assert one_event(b"id: 5\r\nevent: message\r\ndata: x\r\n\r\n") == Event({b"id": b"5"}, b"x")
    assert one_event(b"event: other\ndata: x\n\n") is None
    assert one_event(b"data: \n\n") is None
    assert one_event(b"data: x\n\ndata: y\n\n") is None


@pytest.mark.parametrize(
    "event", [b"data: " + b"x" * 200 + b"\n\n", b"data: " + b"x" * 200, b"data: xxxxxxx\n" * 20]
)
def test_an_event_over_the_limit_is_refused_complete_or_not(event):
    with pytest.raises(ResponseTooLarge, match="over 100 bytes"):
        list(parser_of(100).feed(event))


def test_comments_and_short_events_may_go_on_for_ever():
    events = parser_of(100)
    for _ in range(100):
        assert messages_of(events, b": still here\n\ndata: 123456789\n\n") == [b"123456789"]


def test_a_message_is_complete_with_its_last_carriage_return():
    parser = parser_of(1000)
    assert messages_of(parser, b"data: x\r\r") == [b"x"]
    assert messages_of(parser, b"\ndata: y\r\n\r\n") == [b"y"]


@given(cuts=st.lists(st.integers(1, 3000), min_size=1))
@example(cuts=[343, 1, 1, 1, 239, 1, 1, 1, 318, 1308, 1, 1, 1])
def test_one_over_the_limit_is_skipped_with_its_ends_where_that_is_wanted(cuts):
    long = b'{"id": 7, "result": "' + b"x" * 30_000 + b'", "last": 8}'
    data = b"data: " + MESSAGES[0] + b"\n\nid: 3\ndata: " + long + b"\n\ndata: " + MESSAGES[2] + b"\n\n"
    parser, found, at = parser_of(10_000, skips=True), [], 0
    while at < len(data):
        size = cuts[at % len(cuts)]
        found += messages_of(parser, data[at : at + size])
        at += size
    first, skipped, last = found
    assert (first, last) == (MESSAGES[0], MESSAGES[2])
    assert isinstance(skipped, TooLong)
    assert skipped.head.startswith(b'{"id": 7')
    assert skipped.tail.endswith(b'"last": 8}')

"""Bodies of HTTP answers: bounded whatever comes, and events found wherever the bytes are cut."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.upstream.transport.http_body import (
    BEGINNING_BYTES,
    Events,
    inflated,
    read_beginning,
    read_whole,
    without_body,
)
from mcpx.wire.outgoing import MalformedMessage, ResponseTooLarge

pytestmark = pytest.mark.anyio
MESSAGES = [b'{"id": 1}', "ünï".encode(), b"x" * 300]


async def pieces(data, size=7):
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def unpacked(data, encoding):
    return b"".join([chunk async for chunk in inflated(pieces(data), encoding)])


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("", bytes),
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("X-GZIP", gzip.compress),
        ("deflate", zlib.compress),
    ],
)
async def test_what_was_packed_comes_out_as_it_was(encoding, pack):
    data = json.dumps(list(range(50_000))).encode()
    assert await unpacked(pack(data), encoding) == data


async def test_an_unknown_packing_is_named():
    with pytest.raises(MalformedMessage, match="compressed with br"):
        await unpacked(b"x", "br")


async def test_a_broken_packing_is_unreadable():
    with pytest.raises(MalformedMessage, match="broken"):
        await unpacked(b"this is no gzip", "gzip")


async def test_what_follows_a_packed_body_is_not_read():
    came = 0

    async def endless():
        nonlocal came
        yield gzip.compress(b"the body")
        while True:
            came += 1
            assert came < 10
            yield b"x" * 1000

    assert [chunk async for chunk in inflated(endless(), "gzip")] == [b"the body"]


async def test_a_small_body_does_not_become_a_huge_one_at_once():
    bomb = gzip.compress(b"x" * 50_000_000)
    came = 0

    async def counted():
        nonlocal came
        async for chunk in inflated(pieces(bomb, 65536), "gzip"):
            came += len(chunk)
            yield chunk

    with pytest.raises(ResponseTooLarge, match="over 1000000 bytes"):
        await read_whole(counted(), 1_000_000)
    assert came <= 1_100_000


async def test_a_body_of_exactly_the_limit_is_read():
    assert await read_whole(pieces(b"x" * 100), 100) == b"x" * 100
    with pytest.raises(ResponseTooLarge):
        await read_whole(pieces(b"x" * 101), 100)


@given(cuts=st.lists(st.integers(1, 40), min_size=1), line_break=st.sampled_from(["\n", "\r\n", "\r"]))
def test_events_are_found_wherever_the_bytes_are_cut(cuts, line_break):
    lines = [": hello", ""]
    for message in MESSAGES:
        lines += ["event: message", f"data: {message.decode()}", ""]
    lines += ["event: other", "data: not for us", "", "data: two", "data:lines", "", "data: incomplete"]
    data = line_break.join(lines).encode()
    events = Events(1000)
    found = []
    at = 0
    while at < len(data):
        size = cuts[at % len(cuts)]
        found += events.feed(data[at : at + size])
        at += size
    assert found == [*MESSAGES, b"two\nlines"]
    assert not events.resumable


def test_an_event_with_an_id_makes_the_stream_resumable():
    events = Events(1000)
    assert list(events.feed(b"id: 5\ndata: x\n\n")) == [b"x"]
    assert events.resumable


@pytest.mark.parametrize(
    "event", [b"data: " + b"x" * 200 + b"\n\n", b"data: " + b"x" * 200, b"data: xxxxxxx\n" * 20]
)
def test_an_event_over_the_limit_is_refused_complete_or_not(event):
    with pytest.raises(ResponseTooLarge, match="over 100 bytes"):
        list(Events(100).feed(event))


def test_comments_and_short_events_may_go_on_for_ever():
    events = Events(100)
    for _ in range(100):
        assert list(events.feed(b": still here\n\ndata: 123456789\n\n")) == [b"123456789"]


class Endless(httpx2.AsyncByteStream):
    """Counts what is read of it."""

    def __init__(self, chunk):
        self.chunk, self.read, self.closed = chunk, 0, False

    async def __aiter__(self):
        while True:
            self.read += len(self.chunk)
            yield self.chunk

    async def aclose(self):
        self.closed = True


def endless(chunk=b"x" * 10_000, status=307, **headers):
    request = httpx2.Request("POST", "http://127.0.0.1/a")
    return httpx2.Response(status, headers=headers, stream=Endless(chunk), request=request)


async def test_the_beginning_of_a_body_is_bounded_and_the_rest_hung_up_on():
    response = endless()
    assert len(await read_beginning(response)) == BEGINNING_BYTES
    assert response.stream.read < 2 * BEGINNING_BYTES
    assert response.stream.closed


async def test_a_body_that_nobody_needs_is_taken_off_and_the_redirect_is_kept():
    response = endless(location="/b")
    response.next_request = httpx2.Request("POST", "http://127.0.0.1/b")
    bare = await without_body(response)
    assert await bare.aread() == b""
    assert bare.status_code == 307
    assert bare.headers["location"] == "/b"
    assert bare.next_request is response.next_request
    assert response.stream.read < 2 * BEGINNING_BYTES


async def test_chunks_of_a_byte_do_not_cost_forty_times_their_size():
    async def single():
        for _ in range(1_000_000):
            yield b"xy"

    tracemalloc.start()
    try:
        assert len(await read_whole(single(), 2_000_000)) == 2_000_000
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()

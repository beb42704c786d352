"""Bodies of HTTP answers: bounded whatever comes."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib

import httpx2
import pytest

from mcpx.core.servers.transport.http_bodies import (
    MAX_PREFIX_BYTES,
    bare_response,
    inflated,
    read_prefix,
    read_whole,
)
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge

pytestmark = pytest.mark.anyio


def answered(body, encoding=""):
    return httpx2.Response(200, headers={"content-encoding": encoding}, content=body)


async def pieces(data, size=7):
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def unpacked(data, encoding):
    return b"".join([chunk async for chunk in inflated(answered(pieces(data), encoding))])


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

    assert [chunk async for chunk in inflated(answered(endless(), "gzip"))] == [b"the body"]


async def test_a_small_body_does_not_become_a_huge_one_at_once():
    bomb = gzip.compress(b"x" * 50_000_000)
    came = 0

    async def counted():
        nonlocal came
        async for chunk in pieces(bomb, 4096):
            came += len(chunk)
            yield chunk

    with pytest.raises(ResponseTooLarge, match="over 1000000 bytes"):
        await read_whole(answered(counted(), "gzip"), 1_000_000)
    assert came < len(bomb) / 10


async def test_a_body_of_exactly_the_limit_is_read():
    assert await read_whole(answered(pieces(b"x" * 100)), 100) == b"x" * 100
    with pytest.raises(ResponseTooLarge):
        await read_whole(answered(pieces(b"x" * 101)), 100)


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
    assert len(await read_prefix(response)) == MAX_PREFIX_BYTES
    assert response.stream.read < 2 * MAX_PREFIX_BYTES
    assert response.stream.closed


async def test_a_body_that_nobody_reads_is_taken_off():
    response = endless(location="/b")
    bare = await bare_response(response)
    assert await bare.aread() == b""
    assert bare.status_code == 307
    assert bare.headers["location"] == "/b"
    assert response.stream.read < 2 * MAX_PREFIX_BYTES


async def test_chunks_of_a_byte_do_not_cost_forty_times_their_size():
    async def single():
        for _ in range(100_000):
            yield b"xy"

    tracemalloc.start()
    try:
        assert len(await read_whole(answered(single()), 200_000)) == 200_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()

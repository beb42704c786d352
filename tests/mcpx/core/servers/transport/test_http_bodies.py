"""Bodies of HTTP responses: bounded whatever comes, and never a whole turn of the event loop."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import tracemalloc
import zlib

import pytest

from mcpx.core.servers.transport import http_bodies
from mcpx.core.servers.transport.http_bodies import MAX_PREFIX_BYTES, Events, Prefix, Whole
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge
from tests.mcpx.core.servers.transport.responses import Connection, cut, read

pytestmark = pytest.mark.anyio
LIMIT = 1_000_000


async def unpacked(data, encoding, **more):
    return await read(Whole, data, piece=7, headers=[(b"Content-Encoding", encoding.encode())], **more)


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("", bytes),
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("X-GZIP", lambda data: b"".join(map(gzip.compress, (data[:9], b"", data[9:]))) + b"\0\0"),
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


async def test_what_follows_a_packed_body_is_not_waited_for():
    came = 0

    async def endless():
        nonlocal came
        yield gzip.compress(b"the body")
        while True:
            came += 1
            assert came < 10
            yield b"x" * 1000

    assert await unpacked(endless(), "gzip") == b"the body"


async def test_a_packed_event_is_passed_on_before_the_next_one_comes():
    pack = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    event = b"data: " + json.dumps(list(range(60_000))).encode() + b"\n\n"
    packed = pack.compress(event) + pack.flush(zlib.Z_SYNC_FLUSH)
    seen = []

    class Watched(Events):
        def _add(self, part):
            for _ in super()._add(part):
                seen.append(time.monotonic())
                yield

    headers = [(b"content-encoding", b"gzip")]
    assert [each.data for each in await read(Watched, packed, headers=headers)] == [event[6:-2]]
    assert seen


async def test_a_small_body_does_not_become_a_huge_one_at_once():
    bomb = gzip.compress(b"x" * 50_000_000)
    came = 0

    async def counted():
        nonlocal came
        async for piece in cut(bomb, 4096):
            came += len(piece)
            yield piece

    connection = Connection()
    with pytest.raises(ResponseTooLarge, match="over 1000000 bytes"):
        await unpacked(counted(), "gzip", limit=LIMIT, connection=connection)
    assert came < len(bomb) / 5
    assert connection.closed


async def test_others_have_their_turn_while_a_body_is_unpacked(monkeypatch):
    monkeypatch.setattr(http_bodies, "STEPS_PER_TURN", 4)
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    bomb = gzip.compress(b"x" * 20_000_000)
    headers = [(b"content-encoding", b"gzip")]
    assert len(await read(Whole, bomb, headers=headers)) == 20_000_000
    counting.cancel()
    assert turns > 20_000_000 / 65536 / 4


async def test_a_body_of_exactly_the_limit_is_read():
    assert await read(Whole, b"x" * 100, limit=100, piece=7) == b"x" * 100
    with pytest.raises(ResponseTooLarge):
        await read(Whole, b"x" * 101, limit=100, piece=7)


async def test_the_beginning_of_a_body_is_bounded_and_the_rest_hung_up_on():
    came = 0

    async def endless():
        nonlocal came
        while True:
            came += 10_000
            yield b"x" * 10_000

    connection = Connection()
    assert len(await read(Prefix, endless(), connection=connection)) == MAX_PREFIX_BYTES
    assert came < 2 * MAX_PREFIX_BYTES
    assert connection.closed


async def test_a_beginning_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(http_bodies, "PREFIX_TIMEOUT_S", 0.05)

    async def silent():
        yield b"so far"
        await asyncio.sleep(0.5)
        yield b"too late"

    assert await read(Prefix, silent()) == b"so far"


async def test_pieces_of_a_byte_do_not_cost_forty_times_their_size():
    async def single():
        for _ in range(100_000):
            yield b"xy"

    tracemalloc.start()
    try:
        assert len(await read(Whole, single(), limit=200_000)) == 200_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()

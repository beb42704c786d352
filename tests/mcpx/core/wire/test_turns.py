"""A peer that sends very many messages at once has a few of them dealt with in each turn of the loop."""

from __future__ import annotations

import os

import anyio
import pytest

from mcpx.core.wire.channel import Channel
from mcpx.core.wire.lines import AT_ONCE, MAX_MESSAGES_PER_TURN, Turns

pytestmark = pytest.mark.anyio


@pytest.fixture
async def taken():
    """What was taken, by turns; the channel; and where its peer writes."""
    theirs_out, ours_in = os.pipe(), os.pipe()
    channel = Channel(theirs_out[0], ours_in[1])
    turns: list[list[bytes]] = []
    channel.on_data = Turns(channel, 1000, turns.append).feed
    channel.start_reading()
    yield turns, channel, theirs_out[1]
    channel.close()
    for fd in (*theirs_out, *ours_in):
        os.close(fd)


async def until(done):
    with anyio.fail_after(50):
        while not done():
            await anyio.lowlevel.checkpoint()


async def test_every_message_is_taken_in_order_and_few_a_turn(taken):
    turns, _, fd = taken
    lines = [b"%d" % number for number in range(5000)]
    os.write(fd, b"\n".join(lines) + b"\n")
    await until(lambda: sum(map(len, turns)) == len(lines))
    assert [line for turn in turns for line in turn] == lines
    assert max(map(len, turns)) == AT_ONCE


async def test_what_is_taken_first_is_given_by_itself_so_that_others_can_begin(taken):
    turns, _, fd = taken
    os.write(fd, b"x\n" * MAX_MESSAGES_PER_TURN)
    await until(lambda: sum(map(len, turns)) == MAX_MESSAGES_PER_TURN)
    assert [len(turn) for turn in turns] == [AT_ONCE] * (MAX_MESSAGES_PER_TURN // AT_ONCE)


async def test_others_have_their_turn_in_between(taken):
    turns, _, fd = taken
    os.write(fd, b"x\n" * 5000)
    seen = []

    async def look():
        while sum(map(len, turns)) < 5000:
            seen.append(len(turns))
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(50):
        await look()
    assert len(set(seen)) > 50


async def test_nothing_more_is_read_meanwhile_though_somebody_starts_the_reading(taken):
    turns, channel, fd = taken
    os.write(fd, b"x\n" * 30_000)
    await until(lambda: turns)
    os.write(fd, b"last\n")
    channel.pause_reading()
    channel.start_reading()
    assert channel.has_input()
    await until(lambda: turns[-1][-1] == b"last")
    assert sum(map(len, turns)) == 30_001


async def test_a_pause_outlasts_the_backlog(taken):
    turns, channel, fd = taken
    os.write(fd, b"x\n" * 1000)
    await until(lambda: turns)
    channel.pause_reading()
    await until(lambda: sum(map(len, turns)) == 1000)
    os.write(fd, b"more\n")
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    assert sum(map(len, turns)) == 1000
    channel.start_reading()
    await until(lambda: turns[-1][-1] == b"more")

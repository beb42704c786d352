"""Channels over real pipes: order, coalescing, back-pressure, ends; on the loop of MCPX and on any other."""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import selectors
import socket
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest

from mcpx.core.telemetry.contained import contained
from mcpx.core.wire import turn
from mcpx.core.wire.channel import HIGH_WATER, MAX_UNSENT_BYTES, Channel, PeerNotReading
from mcpx.core.wire.turn import LOOK_S, SHORT_SLEEPS, TURN, ChannelLoop, after_turn, flush_all

OWN_LOOP = {"loop_factory": ChannelLoop}


@pytest.fixture(params=[{}, OWN_LOOP], ids=["any loop", "own loop"])
def anyio_backend(request):
    return "asyncio", request.param


class Pipes:
    """A channel and the far ends of its two pipes."""

    def __init__(self):
        self.reads, self.far_write = os.pipe()
        self.far_read, self.writes = os.pipe()
        for fd in (self.reads, self.writes, self.far_read):
            os.set_blocking(fd, False)
        self.channel = Channel(self.reads, self.writes)
        self.got, self.ended, self.broken = bytearray(), anyio.Event(), []
        self.channel.on_data = self.got.extend
        self.channel.on_end = self.ended.set
        self.channel.on_broken = self.broken.append

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.channel.close()
        for fd in (self.reads, self.far_write, self.far_read, self.writes):
            try:
                os.close(fd)
            except OSError:
                continue

    async def take(self, size):
        """Read `size` bytes at the far end."""
        data = bytearray()
        with anyio.fail_after(50):
            while len(data) < size:
                await anyio.wait_readable(self.far_read)
                data += os.read(self.far_read, 65536)
        return bytes(data)


@pytest.mark.anyio
async def test_bytes_come_in_and_the_end_is_told_once():
    with Pipes() as pipes:
        pipes.channel.start_reading()
        os.write(pipes.far_write, b"hello")
        os.close(pipes.far_write)
        with anyio.fail_after(50):
            await pipes.ended.wait()
        assert bytes(pipes.got) == b"hello"


@pytest.mark.anyio
async def test_what_is_written_in_one_turn_goes_out_in_one_piece():
    with Pipes() as pipes:
        for number in range(50):
            pipes.channel.write(b"%d," % number)
        assert pipes.channel.unsent > 0
        flush_all()
        sent = os.read(pipes.far_read, 65536)
        assert sent == b"".join(b"%d," % number for number in range(50))


@pytest.mark.anyio
async def test_a_slow_reader_makes_congestion_that_ends_when_it_has_read():
    with Pipes() as pipes:
        drained = anyio.Event()
        pipes.channel.on_drained = drained.set
        sent = b"".join(bytes([number % 251]) * 100_000 for number in range(30))
        for start in range(0, len(sent), 100_000):
            pipes.channel.write(sent[start : start + 100_000])
        assert pipes.channel.congested
        assert pipes.channel.unsent > HIGH_WATER
        assert await pipes.take(len(sent)) == sent
        with anyio.fail_after(50):
            await drained.wait()
        assert not pipes.channel.congested
        assert pipes.channel.unsent == 0


@pytest.mark.anyio
async def test_small_pipes_and_odd_pieces_keep_every_byte_in_order():
    with Pipes() as pipes:
        fcntl.fcntl(pipes.writes, 1031, 4096)  # F_SETPIPE_SZ: the smallest there is
        pieces = [bytes([n % 256]) * (n * 37 % 9000) for n in range(1, 400)]
        for piece in pieces:
            pipes.channel.write(piece, memoryview(b"|"))
        whole = b"".join(piece + b"|" for piece in pieces)
        assert await pipes.take(len(whole)) == whole


@pytest.mark.anyio
async def test_a_peer_that_reads_no_more_is_told_once_and_later_writes_are_dropped():
    with Pipes() as pipes:
        os.close(pipes.far_read)
        pipes.channel.write(b"one")
        flush_all()
        pipes.channel.write(b"two")
        flush_all()
        assert [type(error) for error in pipes.broken] == [BrokenPipeError]


@pytest.mark.anyio
async def test_pausing_holds_the_bytes_back():
    with Pipes() as pipes:
        pipes.channel.start_reading()
        pipes.channel.pause_reading()
        os.write(pipes.far_write, b"later")
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert not pipes.got
        pipes.channel.start_reading()
        os.close(pipes.far_write)
        with anyio.fail_after(50):
            await pipes.ended.wait()
        assert bytes(pipes.got) == b"later"


@pytest.mark.anyio
async def test_a_regular_file_can_be_read_like_a_pipe(tmp_path):
    path = tmp_path / "input"
    path.write_bytes(b"x" * 200_000)
    fd = os.open(path, os.O_RDONLY)
    got, ended = bytearray(), anyio.Event()
    channel = Channel(fd, fd)
    channel.on_data, channel.on_end = got.extend, ended.set
    channel.start_reading()
    with anyio.fail_after(50):
        await ended.wait()
    channel.close()
    os.close(fd)
    assert len(got) == 200_000


@pytest.mark.anyio
async def test_a_peer_that_reads_nothing_is_given_up_but_one_message_has_its_place_however_large():
    with Pipes() as pipes:
        congested = []
        pipes.channel.on_congested = lambda: congested.append(True)
        whole = bytes(MAX_UNSENT_BYTES + (1 << 20))
        pipes.channel.write(whole)
        flush_all()
        assert not pipes.broken
        assert congested == [True]
        pipes.channel.write(b"one more")
        assert isinstance(pipes.broken[0], PeerNotReading)
        assert pipes.channel.unsent == 0
        pipes.channel.write(b"and another")
        assert len(pipes.broken) == 1


@pytest.mark.anyio
async def test_large_messages_do_not_count_among_what_a_peer_may_leave_unread():
    with Pipes() as pipes:
        pipes.channel.max_unsent = 4 << 20
        pipes.channel.write(bytes(20 << 20))
        flush_all()
        for _ in range(4):
            pipes.channel.write(bytes(1 << 20))
        assert not pipes.broken
        pipes.channel.write(b"as many as it may")
        pipes.channel.write(b"one more")
        assert isinstance(pipes.broken[0], PeerNotReading)
        assert "more than 4 MB" in str(pipes.broken[0])


@pytest.mark.anyio
@pytest.mark.parametrize("flushed", ["the turn", "the channel"])
async def test_what_is_put_off_is_done_before_anything_is_written_or_after_all_of_it(flushed):
    def readable():
        return bool(select.select([pipes.far_read], [], [], 0)[0])

    def fails():
        raise ValueError("a fault")

    with Pipes() as pipes:
        found = {}
        TURN.is_open, TURN.before = True, lambda: found.update(before=readable())
        after_turn(fails)
        after_turn(lambda: found.update(after=readable()))
        pipes.channel.write(b"one\n")
        if flushed == "the channel":  # as where the pipe was full and has room again
            pipes.channel.flush()
            assert found == {"before": False}
        flush_all()
        assert found == {"before": False, "after": True}
        assert not TURN.is_open
        assert TURN.before is None
        assert await pipes.take(4) == b"one\n"
        pipes.channel.write(b"two\n")
        after_turn(lambda: found.update(later=readable()))
        assert "later" not in found
        await anyio.lowlevel.checkpoint()
        assert found["later"]


@pytest.mark.anyio
@pytest.mark.parametrize(("pieces", "is_ignored"), [(5 * 1024, True), (1, False)], ids=["small", "large"])
async def test_who_reads_no_small_message_is_told_from_who_reads_a_large_one(pieces, is_ignored):
    with Pipes() as pipes:
        for _ in range(pieces):
            pipes.channel.write(b"x" * (5 * 1024 * 1024 // pieces))
        flush_all()
        assert pipes.channel.congested
        assert pipes.channel.is_ignored is is_ignored


# --- the loop that reads its channels itself


def on_own_loop(body):
    async def bounded():
        with anyio.fail_after(50):
            await body()

    anyio.run(bounded, backend_options=OWN_LOOP)


def test_what_follows_from_all_that_is_ready_is_written_at_once():
    async def body():
        ours, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # a packet for each write
        with ours, server, Pipes() as one, Pipes() as other:
            to_server = Channel(ours.fileno(), ours.fileno())
            for client in (one, other):
                client.channel.on_data = to_server.write
                client.channel.start_reading()
                os.write(client.far_write, b"call;")
            await anyio.wait_readable(server)
            assert server.recv(100) == b"call;call;"
            to_server.close()

    on_own_loop(body)


def test_a_reader_that_fails_costs_nobody_else_what_has_come():
    async def body():
        with Pipes() as bad, Pipes() as good:
            bad.channel.on_data = lambda data: data.no_such_thing
            for pipes in (bad, good):
                pipes.channel.start_reading()
                os.write(pipes.far_write, b"x")
            before = contained().get("channel", 0)
            good.channel.on_data = good.channel.write
            assert await good.take(1) == b"x"
            assert contained()["channel"] == before + 1

    on_own_loop(body)


def test_a_channel_that_another_closes_in_this_turn_is_not_read():
    async def body():
        with Pipes() as one, Pipes() as other:
            read = []
            for mine, its in ((one, other), (other, one)):
                mine.channel.on_data = lambda data, its=its: (read.append(data), its.channel.close())
                mine.channel.start_reading()
                os.write(mine.far_write, b"x")
            while not read:
                await anyio.lowlevel.checkpoint()
            await anyio.wait_readable(one.reads if one.channel._ended else other.reads)  # there it still is
            assert read == [b"x"]

    on_own_loop(body)


def test_what_is_let_go_of_by_a_reader_is_not_called_in_the_same_turn():
    """Its descriptor may be another's by then."""

    async def body():
        loop = asyncio.get_running_loop()
        with Pipes() as pipes, Pipes() as watched:
            called, reused = [], anyio.Event()

            def let_go(_data):
                loop.remove_reader(watched.reads)
                loop.add_reader(watched.reads, reused.set)

            pipes.channel.on_data = let_go
            loop.add_reader(watched.reads, called.append, "the old one")
            pipes.channel.start_reading()
            os.write(pipes.far_write, b"x")
            os.write(watched.far_write, b"x")
            await reused.wait()
            loop.remove_reader(watched.reads)
            assert not called

    on_own_loop(body)


def test_a_socket_is_read_while_it_waits_to_be_written():
    async def body():
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            channel, got = Channel(ours.fileno(), ours.fileno()), []
            channel.on_data = got.append
            channel.start_reading()
            channel.write(b"a" * (1 << 20))
            flush_all()
            assert channel.unsent
            theirs.send(b"x")
            while not got:
                await anyio.lowlevel.checkpoint()
            came = 0
            while came < 1 << 20:
                await anyio.wait_readable(theirs)
                came += len(theirs.recv(1 << 20))
            assert not channel.unsent
            channel.close()

    on_own_loop(body)


# --- a look in place of a sleep


@pytest.fixture
def waits(monkeypatch):
    """The selector of the loop, on a clock: a sleep takes `lasts_s`, a look a microsecond."""

    class Waits(SimpleNamespace):
        def of(self, count, timeout=None):
            """The timeouts with which the system is asked in so many waits."""
            self.asked.clear()
            for _ in range(count):
                assert self.selector.select(timeout) == [FOUND]
            return list(self.asked)

    def ask(_selector, timeout):
        made.asked.append(timeout)
        made.now += made.lasts_s if timeout != 0 else 1e-6
        return [FOUND] if timeout != 0 or made.is_quick else []

    monkeypatch.setattr(selectors.DefaultSelector, "select", ask)
    monkeypatch.setattr(turn, "perf_counter", lambda: made.now)
    monkeypatch.setattr(turn, "processors", lambda: 2)
    made = Waits(asked=[], now=0.0, lasts_s=LOOK_S / 2, is_quick=True, selector=turn._ChannelSelector({}))
    yield made
    made.selector.close()


FOUND = selectors.SelectorKey(0, 0, selectors.EVENT_READ, None), selectors.EVENT_READ


def test_after_a_row_of_short_sleeps_it_looks_in_place_of_sleeping(waits):
    assert waits.of(SHORT_SLEEPS + 2) == [None] * SHORT_SLEEPS + [0, 0]


def test_a_look_that_finds_nothing_lasts_its_time_and_is_the_last(waits):
    waits.of(SHORT_SLEEPS)
    waits.is_quick, began = False, waits.now
    *looks, sleep = waits.of(1)
    assert sleep is None
    assert looks == [0] * len(looks)
    assert waits.now - began - waits.lasts_s == pytest.approx(LOOK_S, abs=2e-6)
    assert waits.of(SHORT_SLEEPS) == [None] * SHORT_SLEEPS


def test_who_sleeps_for_long_never_looks(waits):
    waits.lasts_s = 2 * LOOK_S
    assert waits.of(5 * SHORT_SLEEPS) == [None] * (5 * SHORT_SLEEPS)


def test_one_long_sleep_ends_the_row(waits):
    waits.of(SHORT_SLEEPS - 1)
    waits.lasts_s *= 3
    waits.of(1)
    waits.lasts_s /= 3
    assert waits.of(SHORT_SLEEPS) == [None] * SHORT_SLEEPS


def test_what_is_not_to_sleep_for_longer_does_not_look(waits):
    waits.of(SHORT_SLEEPS)
    assert waits.of(3, LOOK_S / 2) == [LOOK_S / 2] * 3
    assert waits.of(3, 0) == [0] * 3


def test_with_a_single_processor_nothing_looks(waits, monkeypatch):
    monkeypatch.setattr(turn, "processors", lambda: 1)
    waits.selector = turn._ChannelSelector({})
    assert waits.of(3 * SHORT_SLEEPS) == [None] * (3 * SHORT_SLEEPS)

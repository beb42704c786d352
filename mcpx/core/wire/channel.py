"""A pair of file descriptors on the event loop: bytes in by callback, bytes out in few writes.

Used for a child's pipes and for this process's standard streams. What is written in one turn of the loop
goes out in one system call. Nothing here waits: a peer that does not read makes the channel `congested`, and
the owner stops whatever feeds it; one that leaves more than `MAX_UNSENT_BYTES` unread is given up. A
descriptor that cannot be polled (a file, /dev/null) is read turn by turn. The descriptors stay the owner's:
`close` only lets go of them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import stat
from collections.abc import Callable
from typing import Final

import anyio

from mcpx.core.system.linux import unread_in_pipe
from mcpx.core.wire.intake import LARGE_BYTES
from mcpx.core.wire.turn import DIRTY, TURN, do_before, flush_all

READ_BYTES: Final = 65536  # the size of a Linux pipe
MAX_JOINED_BYTES: Final = (
    131072  # bytes up to which pieces are copied together; beyond, they are written as they are
)
MAX_PIECES: Final = 512  # in one gathered write; below every system's IOV_MAX
HIGH_WATER: Final = 1 << 20  # bytes not yet taken by the peer that make the channel congested
LOW_WATER: Final = 1 << 18
MAX_UNSENT_BYTES: Final = 64 << 20  # bytes that a peer may leave unread, and one message more
MAX_IGNORED_BYTES: Final = 4 << 20  # unread answers, until a peer that floods with requests gets none


class PeerNotReading(OSError):
    """The peer left more than `limit` bytes unread."""

    def __init__(self, limit: int) -> None:
        super().__init__(errno.ENOBUFS, f"it leaves more than {limit >> 20} MB unread")


class Channel:
    """Bytes both ways. `on_data` gets each chunk; `on_end` is called once, when no more will come.

    `on_broken` is called once when the peer takes no more: it is gone, or reads nothing (`PeerNotReading`).
    `on_congested` is called when more than `HIGH_WATER` waits, `on_drained` when it is at `LOW_WATER` again.
    Callbacks must not raise.
    """

    __slots__ = (
        "_broken",
        "_ended",
        "_flush_due",
        "_held",
        "_loop",
        "_on_sent",
        "_out",
        "_pollable",
        "_read_fd",
        "_readers",
        "_reading",
        "_waiting",
        "_write_fd",
        "_writer_armed",
        "_written",
        "congested",
        "max_unsent",
        "on_broken",
        "on_congested",
        "on_data",
        "on_drained",
        "on_end",
    )

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.on_data: Callable[[bytes], None] = lambda _data: None
        self.on_end: Callable[[], None] = _nothing
        self.on_broken: Callable[[OSError], None] = lambda _error: None
        self.on_congested: Callable[[], None] = _nothing
        self.on_drained: Callable[[], None] = _nothing
        self.congested = False
        self.max_unsent = MAX_UNSENT_BYTES
        """Bytes that the peer may leave unread of messages that are not large."""
        self._loop = asyncio.get_running_loop()
        self._readers: dict[int, Callable[[], None]] = getattr(self._loop, "readers", {})
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._pollable = _is_pollable(read_fd)
        self._reading = False
        self._held = False
        self._ended = False
        self._out: list[bytes | memoryview] = []  # no deque: that takes 600 bytes, empty
        self._waiting = 0  # bytes in _out
        self._written = 0  # bytes taken by the system so far
        self._flush_due = False
        self._writer_armed = False
        self._broken = False
        self._on_sent: Callable[[], None] | None = None

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call this in the next turn of the loop."""
        self._loop.call_soon(function, *arguments)

    # --- in

    def start_reading(self) -> None:
        """Start reading, or resume after `pause_reading`."""
        if not self._ended:
            self._read_if(reading=True, held=self._held)

    def pause_reading(self) -> None:
        """Stop reading, so that the peer has to wait."""
        self._read_if(reading=False, held=self._held)

    def hold_reading(self) -> None:
        """Stop reading for a reason of its own: `start_reading` and `pause_reading` do not end a hold."""
        self._read_if(reading=self._reading, held=True)

    def release_reading(self) -> None:
        """End a hold; reading resumes unless it is paused."""
        self._read_if(reading=self._reading, held=False)

    def _read_if(self, *, reading: bool, held: bool) -> None:
        before, after = self._reading and not self._held, reading and not held
        self._reading, self._held = reading, held
        if before == after:
            return
        if not self._pollable:
            if after:
                self._loop.call_soon(self._read_on)
        elif after:
            self._loop.add_reader(self._read_fd, self._readable)
            self._readers[self._read_fd] = self._readable
        else:
            self._loop.remove_reader(self._read_fd)
            self._readers.pop(self._read_fd, None)

    def _read_on(self) -> None:
        if self._reading and not self._held:
            self._readable()
            if self._reading and not self._held:
                self._loop.call_soon(self._read_on)

    def has_input(self) -> bool:
        """Return True if there are bytes to read; the end of the stream does not count."""
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        return not self._ended and any(events & select.POLLIN for _, events in poll.poll(0))

    def _readable(self) -> None:
        if not self._reading:  # what was ready before it has ended it
            return
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # a peer that is gone is an end
            data = b""
        if data:
            self.on_data(data)
        else:
            self._end()

    def _end(self) -> None:
        self.pause_reading()
        if not self._ended:
            self._ended = True
            self.on_end()

    # --- out

    def write(self, *pieces: bytes | memoryview) -> None:
        """Queue one message; it goes out at the end of this turn of the loop, with what else is ready."""
        if self._broken:
            return
        self._out += pieces
        self._waiting += sum(map(len, pieces))
        if not self._flush_due and not self._writer_armed:
            self._flush_due = True
            DIRTY.append(self)
            if len(DIRTY) == 1 and not TURN.is_open:
                self._loop.call_soon(flush_all)
        if self._waiting > HIGH_WATER:
            self._congest(sum(map(len, pieces)))

    def _congest(self, added: int) -> None:
        """Too much is unsent, the last message of `added` bytes included, which is always accepted."""
        before = self._waiting - added
        if before > self.max_unsent and self._unsent_of_small() > self.max_unsent:
            self._break(PeerNotReading(self.max_unsent))
        elif before > MAX_UNSENT_BYTES:
            self._break(PeerNotReading(MAX_UNSENT_BYTES))
        elif not self.congested:
            self.congested = True
            self.on_congested()

    def _unsent_of_small(self) -> int:
        """The unsent bytes that are not of large messages, whose memory is bounded over all peers."""
        return sum(len(piece) for piece in self._out if len(piece) <= LARGE_BYTES)

    def flush(self) -> None:
        """Write what is queued, as far as the peer takes it now."""
        self._flush_due = False
        if TURN.before is not None:
            do_before()
        try:
            while self._out and not self._broken:
                if not self._write_some():
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._break(error)
        if bool(self._out) != self._writer_armed:
            self._arm_writer(wanted=bool(self._out))
        if self.congested and self._waiting <= LOW_WATER:
            self.congested = False
            self.on_drained()
        if self._on_sent is not None and not self._out:
            on_sent, self._on_sent = self._on_sent, None
            on_sent()

    def when_sent(self, callback: Callable[[], None]) -> None:
        """Call this once, when the peer has taken everything: now, if it has. Not after it was broken."""
        self._on_sent = callback
        self.flush()

    def _write_some(self) -> bool:
        """Make one system call; false if it took less than it was given."""
        if self._waiting <= MAX_JOINED_BYTES:
            whole = b"".join(self._out)
            written = os.write(self._write_fd, whole)
            self._out.clear()
            self._waiting -= written
            self._written += written
            if self._waiting:
                self._out.append(memoryview(whole)[written:])
            return not self._waiting
        given = self._out[:MAX_PIECES]
        length = sum(map(len, given))
        written = os.writev(self._write_fd, given) if len(given) > 1 else os.write(self._write_fd, given[0])
        self._waiting -= written
        self._written += written
        rest, gone = written, 0
        while rest and rest >= len(given[gone]):
            rest -= len(given[gone])
            gone += 1
        del self._out[:gone]
        if rest:
            self._out[0] = memoryview(self._out[0])[rest:]
        return written == length

    def _arm_writer(self, *, wanted: bool) -> None:
        if wanted and not self._writer_armed:
            try:
                self._loop.add_writer(self._write_fd, self.flush)
            except OSError:  # a file: always ready, and full only when the disk is
                self._loop.call_later(0.05, self.flush)
                return
            self._writer_armed = True
        elif not wanted and self._writer_armed:
            self._loop.remove_writer(self._write_fd)
            self._writer_armed = False

    def _break(self, error: OSError) -> None:
        self.release_writer()
        self.on_broken(error)

    @property
    def position(self) -> int:
        """Bytes handed to `write` so far: where the next message begins."""
        return self._written + self._waiting

    def first_unread(self) -> int | None:
        """The position from which the peer has read nothing; None where the system does not say.

        A pipe keeps what was written but not read, also after its reader has died (pipe(7), FIONREAD).
        """
        unread = unread_in_pipe(self._write_fd)
        return None if unread is None else self._written - unread

    @property
    def unsent(self) -> int:
        """Bytes that the peer has not taken yet."""
        return self._waiting

    @property
    def is_ignored(self) -> bool:
        """True if the peer leaves `MAX_IGNORED_BYTES` unread, and is not in the middle of a large message."""
        return self._waiting > MAX_IGNORED_BYTES and len(self._out[0]) <= LARGE_BYTES

    def hung_up(self) -> bool:
        """Return True if the reading end is closed, so that nothing can be written."""
        poll = select.poll()
        poll.register(self._write_fd, 0)  # errors and hang-ups are always reported
        return bool(poll.poll(0))

    def release_writer(self) -> None:
        """Stop writing and drop what is unsent: the owner closes the descriptor."""
        self._arm_writer(wanted=False)
        self._broken = True
        self._out.clear()
        self._waiting = 0

    def close(self) -> None:
        """Let go of the descriptors: no callback comes after this."""
        self.pause_reading()
        self._ended = True
        self.release_writer()


async def answer_to(channel: Channel, request: bytes, *, limit: int) -> bytes:
    """Return what comes until a line ends, the peer closes the connection, or more than `limit` bytes have
    come.

    The channel is not read any further then; what came behind the line is in the result.
    """
    answer = bytearray()
    answered = anyio.Event()

    def on_data(data: bytes) -> None:
        answer.extend(data)
        if b"\n" in data or len(answer) > limit:
            channel.pause_reading()
            answered.set()

    channel.on_data = on_data
    channel.on_end = answered.set
    channel.write(request)
    channel.start_reading()
    await answered.wait()
    return bytes(answer)


def _nothing() -> None:
    return None


def _is_pollable(fd: int) -> bool:
    """Return True if the loop can poll this descriptor; regular files and /dev/null are always ready."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(fd))

"""The shim's input and output: standard streams on one side, the daemon's socket on the other, one poll loop.

It is in one of three states. Joined: lines go both ways, once the daemon has said that it lives (so that
nothing is lost in the queue of one that is dying). Calling: there is no connection, a `Summons` gets one, and
what the client says waits. Resting: no daemon is wanted (it was stopped on purpose) or none can be had; the
next request of the client begins another call, and a daemon that others start is joined by itself.

Memory is bounded: where one side does not take what it is sent, the other is not read. When the client closes
its input, what it has asked is still answered, as long as the daemon lets it; when it takes no more output,
the shim is over at once.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from contextlib import suppress
from typing import Final

from mcpx.attach.outbox import Outbox, read
from mcpx.attach.refusals import decode_object, too_long
from mcpx.attach.session import Session
from mcpx.daemon.launch import Summons
from mcpx.daemon.paths import LIMIT_KEY, POLL_S, Meeting, MeetingError, connect
from mcpx.wire.lines import LineSplitter, TooLong

HIGH_WATER: Final = 1 << 20  # bytes that wait for one side until the other is read no more
LONGEST: Final = 1 << 30  # bytes of a line of the daemon, which has a limit of its own
LONGEST_OF_CLIENT: Final = 64 << 20  # bytes of a line, until a daemon has said what it takes
REST_S: Final = 1.0  # between two looks, while resting, for a daemon that others have started
COOL_S: Final = 2.0  # after a call that failed, until the next is made
ATTEMPTS: Final = 4  # daemons in a row that go away before they have answered anything
GREETING: Final = b'{"mcpx":"attach"}\n'
GREETED_S: Final = 30.0  # for the daemon to say that it lives
STEADY_S: Final = 10.0  # a daemon that was joined for so long was none of those
PAUSE_S: Final = 0.25  # before the second attempt; doubled for each one after it


class Shim:
    """One client, for as long as it lives. `stdin` and `stdout` do not block."""

    def __init__(self, place: Meeting, stdin: int, stdout: int) -> None:
        self._place = place
        self._stdin = stdin
        self._stdout = stdout
        self._session = Session()
        self._from_client = LineSplitter(LONGEST_OF_CLIENT)
        self._from_daemon = LineSplitter(LONGEST)
        self._to_client = Outbox()
        self._to_daemon = Outbox()
        self._input_over = False
        self._link: socket.socket | None = None
        self._joined_at = 0.0
        self._greeted = False
        self._summons: Summons | None = None
        self._not_before = 0.0  # when the next attempt of this call may be made
        self._failures = 0
        self._cause = ""
        self._gave_up = -COOL_S

    def run(self) -> None:
        """Serve until the client is done."""
        self._call()
        while not self._is_over():
            try:
                self._turn()
            except BrokenPipeError:
                return  # the client reads no more
            if self._link is None and not self._is_over():
                self._seek()

    def _is_over(self) -> bool:
        busy = self._link is not None or self._to_daemon.lines or self._to_client.lines
        return self._input_over and not busy

    # --- one turn of the loop

    def _turn(self) -> None:
        poll = select.poll()
        link = -1 if self._link is None else self._link.fileno()
        if not self._input_over and self._to_daemon.waiting < HIGH_WATER:
            poll.register(self._stdin, select.POLLIN)
        poll.register(self._stdout, select.POLLOUT if self._to_client.lines else 0)
        if link >= 0:
            reading = select.POLLIN if self._to_client.waiting < HIGH_WATER else 0
            writing = self._greeted and self._to_daemon.lines
            poll.register(link, reading | (select.POLLOUT if writing else 0))
        ready = dict(poll.poll(self._patience()))
        if ready.get(self._stdout, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            raise BrokenPipeError
        if self._stdin in ready:
            self._read_client()
        if link in ready:
            self._use_link(ready[link])
        elif link >= 0 and not self._greeted and time.monotonic() - self._joined_at > GREETED_S:
            self._cause = f"the daemon does not answer within {GREETED_S:g} s; see {self._place.log}"
            self._failures = ATTEMPTS
            self._lose()
        self._to_client.flush(self._stdout)

    def _patience(self) -> int | None:
        """Milliseconds until something has to be looked after."""
        if self._link is not None:
            return None if self._greeted else int(1000 * GREETED_S)
        return int(1000 * (REST_S if self._summons is None else POLL_S))

    def _read_client(self) -> None:
        chunk = read(self._stdin)
        if chunk is None:
            return
        if not chunk:
            self._input_over = True
        for line in self._from_client.feed(chunk):
            if isinstance(line, TooLong):
                self._to_client.put(too_long(line))
            elif (passed := self._session.from_client(line)) is not None:
                self._to_daemon.put([passed])
        self._write_link()

    def _use_link(self, ready: int) -> None:
        assert self._link is not None  # noqa: S101 - it was polled
        if ready & select.POLLOUT:
            self._write_link()
        if self._link is not None and ready & ~select.POLLOUT:
            chunk = read(self._link.fileno())
            if chunk == b"":
                self._lose()
            elif chunk:
                self._read_daemon(chunk)

    def _read_daemon(self, chunk: bytes) -> None:
        for line in self._from_daemon.feed(chunk):
            if isinstance(line, TooLong):
                continue
            if self._greeted:
                self._failures = 0
                self._to_client.put(self._session.from_daemon(line))
            else:
                self._from_client.set_limit(_limit_in(line))
                self._open_session()
        if self._session.to_daemon:
            self._send_own()
        if self._session.refused is not None:
            self._cause, self._session.refused = self._session.refused, None
            self._failures = ATTEMPTS
            self._lose()

    def _open_session(self) -> None:
        """The daemon lives: tell it what the one before it knew, and then what has waited."""
        self._greeted = True
        waiting = self._to_daemon.not_begun()
        self._to_daemon.put(self._session.replay(waiting) + waiting)
        self._write_link()

    def _send_own(self) -> None:
        lines, self._session.to_daemon = self._session.to_daemon, []
        self._to_daemon.put(lines)
        self._write_link()

    def _write_link(self) -> None:
        if self._link is None or not self._greeted:
            return
        try:
            self._to_daemon.flush(self._link.fileno())
            if self._input_over and not self._to_daemon.lines:
                self._link.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # what it has said before it went can still be read, and then its end

    # --- losing the daemon, and finding the next

    def _lose(self) -> None:
        """The daemon is gone: tell the client what is lost, and look for the next unless it is not wanted."""
        if self._link is not None:
            self._link.close()
            self._link = None
        self._from_daemon = LineSplitter(LONGEST)
        told, kept = self._session.lost(self._to_daemon.not_begun())
        self._to_client.put(told)
        self._to_daemon.put(kept)
        steady = self._failures < ATTEMPTS and time.monotonic() - self._joined_at > STEADY_S
        self._failures = 1 if steady else self._failures + 1
        if self._failures > ATTEMPTS:
            self._give_up(self._cause or "it goes away as soon as it is asked")
        elif not self._input_over and (kept or not self._place.stopped.exists()):
            self._call()

    def _call(self) -> None:
        self._end_call()
        self._summons = Summons(self._place)
        self._not_before = time.monotonic()
        if self._failures > 1:
            self._not_before += PAUSE_S * 2 ** (self._failures - 2)

    def _end_call(self) -> None:
        if self._summons is not None:
            self._summons.close()
            self._summons = None

    def _seek(self) -> None:
        """No connection: get one, or wait, or refuse what waits."""
        if self._summons is None:
            self._rest()
            return
        if self._input_over and not self._to_daemon.lines:
            self._end_call()
            return
        if time.monotonic() < self._not_before:
            return
        try:
            joined = self._summons.look()
        except MeetingError as error:
            self._cause = str(error)
            self._failures += 1
            if self._failures > ATTEMPTS:
                self._give_up(self._cause)
            else:
                self._call()
            return
        if joined is not None:
            self._join(joined)

    def _rest(self) -> None:
        """A request of the client is worth a call; failing that, somebody may have started a daemon."""
        if self._to_daemon.lines:
            if time.monotonic() - self._gave_up < COOL_S:
                self._refuse()
            else:
                self._failures = 0
                self._call()
            return
        with suppress(MeetingError):
            if not self._input_over and (joined := connect(self._place)) is not None:
                self._failures = 0
                self._join(joined)

    def _join(self, joined: socket.socket) -> None:
        self._end_call()
        joined.setblocking(False)  # noqa: FBT003 - the standard library's signature
        self._link = joined
        self._greeted, self._joined_at = False, time.monotonic()
        with suppress(OSError):  # its end will be read
            joined.send(GREETING)

    def _give_up(self, cause: str) -> None:
        """Answer what waits, and rest."""
        self._end_call()
        self._gave_up, self._cause = time.monotonic(), cause
        sys.stderr.write(f"mcpx: {cause}\n")
        self._refuse()

    def _refuse(self) -> None:
        self._to_client.put(self._session.refuse(self._to_daemon.not_begun(), self._cause))
        self._to_client.flush(self._stdout)


def _limit_in(greeting: bytes) -> int:
    """The longest line that the daemon takes, out of its answer to the greeting."""
    limit = decode_object(greeting).get(LIMIT_KEY)
    return limit if isinstance(limit, int) else LONGEST_OF_CLIENT

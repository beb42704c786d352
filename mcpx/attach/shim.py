"""The shim's input and output: standard streams on one side, the daemon's socket on the other, one poll loop.

Connected, lines go both ways, once the daemon has answered the greeting, so that nothing is lost in the queue
of a daemon that is dying. Without a connection, what the client sends waits for one (`Connecting`).

Until the first daemon has answered the greeting, the client is answered from what is remembered: at once if
none listens, and after a moment if one listens that may be starting itself. When connecting was given up, or
takes long, its session is opened nevertheless; when it was given up, `inspect` says why. Another MCPX is
told nothing that its server has not said: for it the shim ends with its daemon, or without one.

Memory is bounded: while one side does not read, the other is not read. When the client closes its input, its
requests are still answered, as long as the daemon does so; when it closes its output, the shim ends at once.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from contextlib import suppress
from typing import Any, Final

from mcpx.attach.connecting import NO_DAEMON, NO_SERVER, REFUSED, Connecting
from mcpx.attach.pending import decode_object, malformed
from mcpx.attach.remembered import RememberedAnswers
from mcpx.attach.session import Session
from mcpx.core.system.endpoint import LIMIT_KEY, WANTED_KEY, Endpoint, Surroundings, greeting, surroundings
from mcpx.core.system.environment import environment_of_client
from mcpx.core.wire.lines import LineSplitter, TooLong
from mcpx.errors import DaemonError

# --- whole lines to and from a descriptor that does not block

READ_SIZE: Final = 65536  # bytes
MAX_LINES_PER_WRITE: Final = 64


class Outbox:
    """Lines that wait for one side; `waiting` is their size in bytes."""

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque()
        self.waiting = 0
        self._written = 0  # bytes of the first line that have been written

    def put(self, lines: list[bytes]) -> None:
        """Append lines; `flush` writes them."""
        self.lines.extend(lines)
        self.waiting += sum(map(len, lines))

    def flush(self, fd: int) -> None:
        """Write as much as the descriptor accepts now.

        Raises:
            OSError: The other side is gone.
        """
        while self.lines:
            pieces: list[bytes | memoryview] = [memoryview(self.lines[0])[self._written :]]
            pieces += [self.lines[i] for i in range(1, min(len(self.lines), MAX_LINES_PER_WRITE))]
            try:
                count = os.writev(fd, pieces)
            except BlockingIOError:
                return
            self.waiting -= count
            self._written += count
            while self.lines and self._written >= len(self.lines[0]):
                self._written -= len(self.lines.popleft())

    def take_unsent(self) -> list[bytes]:
        """Take out the lines of which no byte was written; drop the rest."""
        lines = list(self.lines)[1 if self._written else 0 :]
        self.lines.clear()
        self.waiting = self._written = 0
        return lines


def read(fd: int) -> bytes | None:
    """Read what is there: empty at the end of the stream, None if there is nothing yet."""
    try:
        return os.read(fd, READ_SIZE)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:  # a peer that is gone is an end
        return b""


HIGH_WATER: Final = 1 << 20  # bytes that wait for one side; beyond, the other side is not read
MAX_DAEMON_LINE: Final = 1 << 30  # bytes of a line of the daemon, which has a limit of its own
MAX_CLIENT_LINE: Final = 64 << 20  # bytes of a line, until a daemon has said what it accepts
GREETING_TIMEOUT_S: Final = 30.0  # for the daemon to answer the greeting
LOOK_S: Final = 1.0  # meanwhile, between two looks at the clock
GREETING_GRACE_S: Final = 0.05  # for that, before the client is answered from what is remembered
HEAD_START_S: Final = 0.02  # of a client that can be answered, before the daemon is started beside it
QUIET_S: Final = (
    0.1  # without any line, before what the daemon has answered is written down, or the shim ends
)
ANSWERED_AFTER_S: Final = 8.0  # without a daemon, the session opens nevertheless: clients give up after 10 s
STARTING: Final = f"{NO_DAEMON} yet: it is starting, or ends its last work"


class Shim:
    """Serves one client until it is done. `stdin` and `stdout` do not block; `answers` may be None."""

    def __init__(
        self,
        connecting: Connecting,
        endpoint: Endpoint,
        stdin: int,
        stdout: int,
        answers: RememberedAnswers | None,
    ) -> None:
        self._endpoint = endpoint
        self._stdin = stdin
        self._stdout = stdout
        self._connecting = connecting
        self._answers = answers
        self._ends_with_daemon = endpoint.peer is not None  # a peer connects again by itself
        self._is_over = False
        self.failure: str | None = None
        """Why another MCPX cannot be served."""
        self._session = Session(answers, transparent=endpoint.alone is not None)
        self._answers_known = None if answers is None else False  # what is known already; None: no longer
        self._from_client = LineSplitter(MAX_CLIENT_LINE)
        self._from_daemon = LineSplitter(MAX_DAEMON_LINE)
        self._to_client = Outbox()
        self._to_daemon = Outbox()
        self._input_closed = False
        self._is_quiet = False  # the last turn had nothing to do
        self._connection: socket.socket | None = None
        self._connected_at = 0.0
        self._greeted = False
        self._waiting_since: float | None = None  # something of the client waits for a daemon

    def _greeting(self, about: Surroundings) -> bytes:
        return greeting(self._endpoint, about, environment=environment_of_client(os.environ))

    def run(self) -> None:
        """Serve until the client is done."""
        try:
            self._begin()
            while not self._is_done():
                self._poll_once(self._poll_timeout_ms())
                self._count_waiting()
                if self._wants_connection:
                    self._connect()
        except BrokenPipeError:
            pass  # the client has closed its output
        self._write_answers()

    def _begin(self) -> None:
        """Use the daemon that runs, or start one: after the client's first requests, if they are known."""
        if (connection := self._connecting.existing()) is not None:
            self._connected(connection)
            return
        if self._answers_known is False:
            self._answer_known()
        until = time.monotonic() + HEAD_START_S
        while not (self._session.awaits_daemon or self._input_closed) and time.monotonic() < until:
            self._poll_once(int(1000 * HEAD_START_S))
        self._connecting.begin()
        self._connect()

    @property
    def _wants_connection(self) -> bool:
        if self._connection is not None or self._is_over:
            return False
        return bool(self._to_daemon.lines) or not self._input_closed

    def _is_done(self) -> bool:
        if self._is_over:
            return not self._to_client.lines
        if not self._input_closed or self._to_daemon.lines or self._to_client.lines:
            return False
        if self._connection is None or not (self._greeted or self._session.awaits_daemon):
            return True
        return self._is_quiet and self._session.awaits_only_itself

    # --- one turn of the loop

    def _poll_once(self, timeout_ms: int | None) -> None:
        poll = select.poll()
        fd = -1 if self._connection is None else self._connection.fileno()
        if not self._input_closed and self._to_daemon.waiting < HIGH_WATER:
            poll.register(self._stdin, select.POLLIN)
        poll.register(self._stdout, select.POLLOUT if self._to_client.lines else 0)
        if fd >= 0:
            reading = select.POLLIN if self._to_client.waiting < HIGH_WATER else 0
            writing = self._greeted and self._to_daemon.lines
            poll.register(fd, reading | (select.POLLOUT if writing else 0))
        ready = dict(poll.poll(timeout_ms))
        self._is_quiet = not ready
        if ready.get(self._stdout, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            raise BrokenPipeError
        if self._stdin in ready:
            self._read_client()
        if fd in ready:
            self._use_connection(ready[fd])
        elif fd >= 0 and not self._greeted:
            self._wait_for_greeting(time.monotonic() - self._connected_at)
        self._to_client.flush(self._stdout)
        if self._is_quiet and self._greeted:
            self._write_answers()

    def _poll_timeout_ms(self) -> int | None:
        """Milliseconds until something else than the descriptors needs attention; None for never."""
        if self._connection is None:
            timeout_s = self._connecting.poll_interval_s
        elif not self._greeted:
            timeout_s = GREETING_GRACE_S if self._answers_known is False else LOOK_S
        elif (self._answers is not None and self._answers.has_notes) or self._input_closed:
            timeout_s = QUIET_S
        else:
            return None
        return int(1000 * timeout_s)

    def _read_client(self) -> None:
        chunk = read(self._stdin)
        if chunk is None:
            return
        if not chunk:
            self._input_closed = True
        for line in self._from_client.feed(chunk):
            if isinstance(line, TooLong):
                self._to_client.put(malformed(line))
            elif isinstance(line, bytes) and (passed := self._session.from_client(line)) is not None:
                self._pass_on([passed])
        self._write_daemon()

    def _pass_on(self, lines: list[bytes]) -> None:
        """Let lines wait for the daemon, unless they are answered already."""
        if self._answers_known:
            responses, lines = self._session.answer(lines)
            self._to_client.put(responses)
        self._to_daemon.put(lines)

    def _answer_known(self) -> None:
        """From now on answer what is known, also of what waits, until a daemon answers."""
        self._answers_known = True
        self._pass_on(self._to_daemon.take_unsent())

    def _count_waiting(self) -> None:
        """After `ANSWERED_AFTER_S` open the session and list the tools without a daemon."""
        if self._greeted or self._ends_with_daemon or not self._to_daemon.lines:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = time.monotonic()
        elif time.monotonic() - self._waiting_since > ANSWERED_AFTER_S:
            self._session.wait_no_longer(STARTING)
            self._answer_known()

    def _wait_for_greeting(self, waited_s: float) -> None:
        """The daemon has not answered the greeting yet."""
        if waited_s > GREETING_TIMEOUT_S:
            log = self._connecting.paths.log
            cause = f"the daemon does not answer within {GREETING_TIMEOUT_S:g} s; see {log}"
            self._disconnect(self._connecting.give_up(cause))
        elif waited_s >= GREETING_GRACE_S and self._answers_known is False:
            self._answer_known()

    def _write_answers(self) -> None:
        if self._answers is not None and self._answers.has_notes:
            self._answers.write()

    def _use_connection(self, ready: int) -> None:
        assert self._connection is not None  # it was polled
        if ready & select.POLLOUT:
            self._write_daemon()
        if self._connection is not None and ready & ~select.POLLOUT:
            chunk = read(self._connection.fileno())
            if chunk == b"":
                self._disconnect()
            elif chunk:
                self._read_daemon(chunk)

    def _read_daemon(self, chunk: bytes) -> None:
        for line in self._from_daemon.feed(chunk):
            if not isinstance(line, bytes):
                continue
            if self._greeted:
                self._connecting.succeeded()
                self._to_client.put(self._session.from_daemon(line))
            else:
                self._take_answer(decode_object(line))
        if self._session.to_daemon:
            self._send_own()
        if self._session.refused is not None:
            cause, self._session.refused = self._session.refused, None
            self._refused(cause, NO_SERVER if self._session.waits_for_server else REFUSED)

    def _take_answer(self, answer: dict[str, Any]) -> None:
        """Begin, now that the daemon has answered the greeting; or refuse what waits, if it has refused."""
        if isinstance(cause := answer.get("error"), str):
            self._refused(cause.rstrip("."), REFUSED)
            return
        if isinstance(wanted := answer.get(WANTED_KEY), list) and self._connection is not None:
            about = surroundings([*map(str, wanted)], told_all=True)
            with suppress(OSError):  # its end will be read
                self._connection.send(self._greeting(about))
            return
        limit = answer.get(LIMIT_KEY)
        self._from_client.set_limit(limit if isinstance(limit, int) else MAX_CLIENT_LINE)
        self._greeted, self._answers_known = True, None
        if self._answers is not None:
            self._answers.daemon_answers(self._connecting.paths, answer.get("version"))
        self._open_session()

    def _refused(self, cause: str, trouble: str) -> None:
        """The daemon refuses the client, which is to hear that at once when it is started again."""
        if self._answers is not None:
            self._answers.drop()
        self._disconnect(self._connecting.give_up(cause, trouble=trouble))

    def _open_session(self) -> None:
        """Send what the previous daemon knew, then what has waited."""
        waiting = self._to_daemon.take_unsent()
        self._to_daemon.put(self._session.replay(waiting) + waiting)
        self._to_client.put(self._session.news_of_replay())
        self._write_daemon()

    def _send_own(self) -> None:
        lines, self._session.to_daemon = self._session.to_daemon, []
        self._to_daemon.put(lines)
        self._write_daemon()

    def _write_daemon(self) -> None:
        if self._connection is None or not self._greeted:
            return
        try:
            self._to_daemon.flush(self._connection.fileno())
            if self._input_closed and not self._to_daemon.lines:
                self._connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # what it sent before it ended can still be read, and then its end

    # --- from one daemon to the next

    def _disconnect(self, given_up: DaemonError | None = None) -> None:
        """The daemon is gone: answer what was in flight, and connect to the next unless none is wanted.

        Another MCPX learns of it by the end of the shim, as of a server that has died.
        """
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._ends_with_daemon and self._greeted:
            self._is_over = True
            return
        self._greeted = False
        self._from_daemon = LineSplitter(MAX_DAEMON_LINE)
        to_client, to_next_daemon = self._session.daemon_lost(self._to_daemon.take_unsent())
        self._to_client.put(to_client)
        self._to_daemon.put(to_next_daemon)
        given_up = given_up or self._connecting.lost(time.monotonic() - self._connected_at)
        if given_up is not None:
            self._refuse(given_up)
        elif not self._input_closed and (to_next_daemon or not self._connecting.was_stopped()):
            self._connecting.start()

    def _connect(self) -> None:
        """Without a connection: get one, or wait, or refuse what waits."""
        try:
            connection = self._connecting.poll(wanted=bool(self._to_daemon.lines))
        except DaemonError as error:
            self._refuse(error)
            return
        if connection is not None:
            self._connected(connection)

    def _connected(self, connection: socket.socket) -> None:
        connection.settimeout(0.0)
        self._connection = connection
        self._greeted, self._connected_at = False, time.monotonic()
        if not self._connecting.greets:
            self._greeted, self._answers_known = True, None
            self._open_session()
            return
        with suppress(OSError):  # its end will be read
            connection.send(self._greeting(surroundings()))

    def _refuse(self, cause: DaemonError) -> None:
        """There is no daemon for now: refuse what waits."""
        if self._ends_with_daemon:
            self.failure, self._is_over = str(cause), True
            return
        self._answers_known = None
        self._to_client.put(self._session.refuse(self._to_daemon.take_unsent(), str(cause)))
        self._to_client.flush(self._stdout)

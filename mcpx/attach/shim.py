"""The shim's input and output: standard streams on one side, the daemon's socket on the other, one poll loop.

It is in one of three states. Connected: lines go both ways, once the daemon has answered the greeting, so
that nothing is lost in the queue of a daemon that is dying. Connecting: a `DaemonLauncher` gets a connection,
and what the client sends waits. Idle: no daemon is wanted (it was stopped on purpose) or none can be reached;
the next request of the client starts connecting, and so does a daemon that another process has started.

Memory is bounded: while one side does not read, the other is not read. When the client closes its input, its
requests are still answered, as long as the daemon does so; when it closes its output, the shim ends at once.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from contextlib import suppress
from typing import Any, Final

from mcpx.attach.outbox import Outbox, read
from mcpx.attach.refusals import decode_object, too_long
from mcpx.attach.session import Session
from mcpx.daemon.launch import DaemonLauncher
from mcpx.daemon.paths import POLL_INTERVAL_S, DaemonPaths, connect, daemon_paths
from mcpx.daemon.protocol import LIMIT_KEY, greeting
from mcpx.door import Door
from mcpx.errors import DaemonError
from mcpx.wire.lines import LineSplitter, TooLong

HIGH_WATER: Final = 1 << 20  # bytes that wait for one side; beyond, the other side is not read
MAX_DAEMON_LINE: Final = 1 << 30  # bytes of a line of the daemon, which has a limit of its own
MAX_CLIENT_LINE: Final = 64 << 20  # bytes of a line, until a daemon has said what it accepts
IDLE_POLL_S: Final = 1.0  # while idle, between two attempts to find a daemon that others have started
LAUNCH_COOLDOWN_S: Final = 2.0  # after connecting failed, until it is tried again
MAX_ATTEMPTS: Final = 4  # daemons in a row that end before they have answered anything
GREETING_TIMEOUT_S: Final = 30.0  # for the daemon to answer the greeting
STABLE_AFTER_S: Final = 10.0  # of connection, after which earlier failures are forgotten
NO_DAEMON: Final = "There is no MCPX daemon, and none can be had"
DAEMON_REFUSES: Final = "The MCPX daemon does not serve this client"
RETRY_DELAY_S: Final = 0.25  # before the second attempt; doubled for each one after it


class Shim:
    """Serves one client, at its door, until it is done. `stdin` and `stdout` do not block."""

    def __init__(self, paths: DaemonPaths, door: Door, stdin: int, stdout: int) -> None:
        self._paths = paths
        self._greeting = greeting(door)
        self._stdin = stdin
        self._stdout = stdout
        self._session = Session(transparent=door.server is not None)
        self._from_client = LineSplitter(MAX_CLIENT_LINE)
        self._from_daemon = LineSplitter(MAX_DAEMON_LINE)
        self._to_client = Outbox()
        self._to_daemon = Outbox()
        self._input_closed = False
        self._connection: socket.socket | None = None
        self._connected_at = 0.0
        self._greeted = False
        self._launcher: DaemonLauncher | None = None
        self._not_before = 0.0  # when the next attempt may be made
        self._failures = 0
        self._trouble, self._cause = NO_DAEMON, ""
        self._gave_up_at = -LAUNCH_COOLDOWN_S

    def run(self) -> None:
        """Serve until the client is done."""
        self._start_connecting()
        while not self._is_done():
            try:
                self._poll_once()
            except BrokenPipeError:
                return  # the client has closed its output
            if self._connection is None and not self._is_done():
                self._connect()

    def _is_done(self) -> bool:
        busy = self._connection is not None or self._to_daemon.lines or self._to_client.lines
        return self._input_closed and not busy

    # --- one turn of the loop

    def _poll_once(self) -> None:
        poll = select.poll()
        fd = -1 if self._connection is None else self._connection.fileno()
        if not self._input_closed and self._to_daemon.waiting < HIGH_WATER:
            poll.register(self._stdin, select.POLLIN)
        poll.register(self._stdout, select.POLLOUT if self._to_client.lines else 0)
        if fd >= 0:
            reading = select.POLLIN if self._to_client.waiting < HIGH_WATER else 0
            writing = self._greeted and self._to_daemon.lines
            poll.register(fd, reading | (select.POLLOUT if writing else 0))
        ready = dict(poll.poll(self._poll_timeout_ms()))
        if ready.get(self._stdout, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            raise BrokenPipeError
        if self._stdin in ready:
            self._read_client()
        if fd in ready:
            self._use_connection(ready[fd])
        elif fd >= 0 and not self._greeted and time.monotonic() - self._connected_at > GREETING_TIMEOUT_S:
            self._cause = f"the daemon does not answer within {GREETING_TIMEOUT_S:g} s; see {self._paths.log}"
            self._failures = MAX_ATTEMPTS
            self._disconnect()
        self._to_client.flush(self._stdout)

    def _poll_timeout_ms(self) -> int | None:
        """Milliseconds until something else than the descriptors needs attention; None for never."""
        if self._connection is not None:
            return None if self._greeted else int(1000 * GREETING_TIMEOUT_S)
        return int(1000 * (IDLE_POLL_S if self._launcher is None else POLL_INTERVAL_S))

    def _read_client(self) -> None:
        chunk = read(self._stdin)
        if chunk is None:
            return
        if not chunk:
            self._input_closed = True
        for line in self._from_client.feed(chunk):
            if isinstance(line, TooLong):
                self._to_client.put(too_long(line))
            elif (passed := self._session.from_client(line)) is not None:
                self._to_daemon.put([passed])
        self._write_daemon()

    def _use_connection(self, ready: int) -> None:
        assert self._connection is not None  # noqa: S101 - it was polled
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
            if isinstance(line, TooLong):
                continue
            if self._greeted:
                self._failures = 0
                self._to_client.put(self._session.from_daemon(line))
            else:
                self._take_answer(decode_object(line))
        if self._session.to_daemon:
            self._send_own()
        if self._session.refused is not None:
            self._cause, self._session.refused = self._session.refused, None
            self._failures = MAX_ATTEMPTS
            self._disconnect()

    def _take_answer(self, answer: dict[str, Any]) -> None:
        """Begin, now that the daemon has answered the greeting; or refuse what waits, if it has refused."""
        if isinstance(cause := answer.get("error"), str):
            self._trouble, self._cause, self._failures = DAEMON_REFUSES, cause.rstrip("."), MAX_ATTEMPTS
            self._disconnect()
            return
        limit = answer.get(LIMIT_KEY)
        self._from_client.set_limit(limit if isinstance(limit, int) else MAX_CLIENT_LINE)
        self._open_session()

    def _open_session(self) -> None:
        """Send what the previous daemon knew, then what has waited: the daemon has answered the greeting."""
        self._greeted = True
        waiting = self._to_daemon.take_unsent()
        self._to_daemon.put(self._session.replay(waiting) + waiting)
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

    def _disconnect(self) -> None:
        """The daemon is gone: answer what was in flight, and connect to the next unless none is wanted."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._from_daemon = LineSplitter(MAX_DAEMON_LINE)
        lost = self._session.daemon_lost(self._to_daemon.take_unsent())
        self._to_client.put(lost.to_client)
        self._to_daemon.put(lost.to_next_daemon)
        steady = self._failures < MAX_ATTEMPTS and time.monotonic() - self._connected_at > STABLE_AFTER_S
        self._failures = 1 if steady else self._failures + 1
        if self._failures > MAX_ATTEMPTS:
            self._give_up(self._cause or "it goes away as soon as it is asked")
        elif not self._input_closed and (lost.to_next_daemon or not self._paths.stopped.exists()):
            self._start_connecting()

    def _start_connecting(self) -> None:
        self._stop_connecting()
        self._paths = daemon_paths(self._paths.config)  # a link may lead elsewhere now
        self._launcher = DaemonLauncher(self._paths)
        self._trouble = NO_DAEMON
        self._not_before = time.monotonic()
        if self._failures > 1:
            self._not_before += RETRY_DELAY_S * 2 ** (self._failures - 2)

    def _stop_connecting(self) -> None:
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None

    def _connect(self) -> None:
        """Without a connection: get one, or wait, or refuse what waits."""
        if self._launcher is None:
            self._stay_idle()
            return
        if self._input_closed and not self._to_daemon.lines:
            self._stop_connecting()
            return
        if time.monotonic() < self._not_before:
            return
        try:
            connection = self._launcher.poll()
        except DaemonError as error:
            self._cause = str(error)
            self._failures += 1
            if self._failures > MAX_ATTEMPTS:
                self._give_up(self._cause)
            else:
                self._start_connecting()
            return
        if connection is not None:
            self._connected(connection)

    def _stay_idle(self) -> None:
        """Start connecting for a request of the client, or use a daemon that another process has started."""
        if self._to_daemon.lines:
            if time.monotonic() - self._gave_up_at < LAUNCH_COOLDOWN_S:
                self._refuse()
            else:
                self._failures = 0
                self._start_connecting()
            return
        with suppress(DaemonError):
            if not self._input_closed and (connection := connect(self._paths)) is not None:
                self._failures = 0
                self._connected(connection)

    def _connected(self, connection: socket.socket) -> None:
        self._stop_connecting()
        connection.setblocking(False)  # noqa: FBT003 - the standard library's signature
        self._connection = connection
        self._greeted, self._connected_at = False, time.monotonic()
        with suppress(OSError):  # its end will be read
            connection.send(self._greeting)

    def _give_up(self, cause: str) -> None:
        """Refuse what waits, and become idle."""
        self._stop_connecting()
        self._gave_up_at, self._cause = time.monotonic(), cause
        sys.stderr.write(f"mcpx: {cause}\n")
        self._refuse()

    def _refuse(self) -> None:
        self._to_client.put(
            self._session.refuse(self._to_daemon.take_unsent(), f"{self._trouble}: {self._cause}")
        )
        self._to_client.flush(self._stdout)

"""Asking the daemon for `mcpx top`: in threads, so that a daemon that hangs never stops the screen.

The threads end with the process, whatever they wait for. `took` is called in them; what it does there must be
safe from another thread.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol

from mcpx.cli.asking import RELOAD_TIMEOUT_S
from mcpx.cli.operations.status_table import converted
from mcpx.core.daemon.control_client import request_or_fail
from mcpx.core.daemon.status import Status
from mcpx.core.running.bounded import run
from mcpx.core.store.paths import DaemonPaths
from mcpx.core.system.processes import ProcessFigures, Use
from mcpx.core.telemetry.log_files import server_log_path
from mcpx.core.text import escaped
from mcpx.errors import MCPXError
from mcpx.top.history import Overview, Row

# --- log files

READ_BYTES: Final = 256 * 1024  # at a time, and of the past
MAX_LINE_CHARACTERS: Final = 1000


class LogFile:
    """One log file; `news` says what it has more of. Close it in the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def news(self) -> list[str]:
        """The lines since the last time; the first time those that stand at the end. Escaped, and cut.

        Raises:
            OSError: The file cannot be read. That there is none is no error.
        """
        lines: list[str] = []
        if self._file is not None and not self._is_current(self._file):
            lines += self._read(self._file)
            self.close()
        if self._file is None:
            try:
                self._file = self.path.open("rb")
            except FileNotFoundError:
                return lines
        return lines + self._read(self._file)

    def close(self) -> None:
        """Close the file; the next `news` opens it again, from its beginning."""
        if self._file is not None:
            self._file.close()
        self._file, self._rest = None, b""

    def _is_current(self, log: BinaryIO) -> bool:
        """Return True if the path still leads to the open file, and nobody has emptied it."""
        mine = os.fstat(log.fileno())
        if mine.st_size < log.tell():
            return False
        try:
            return os.path.samestat(mine, self.path.stat())
        except FileNotFoundError:
            return True  # in the middle of a rotation: there is nothing else to read yet

    def _read(self, log: BinaryIO) -> list[str]:
        lines: list[str] = []
        behind = os.fstat(log.fileno()).st_size - log.tell() - READ_BYTES
        if behind > 0:
            lines.append(f"... {behind} bytes before this are not shown")
            log.seek(behind, os.SEEK_CUR)
            log.readline(MAX_LINE_CHARACTERS)  # the end of a line whose beginning is left out
            self._rest = b""
        *whole, self._rest = (self._rest + log.read(READ_BYTES)).split(b"\n")
        if len(self._rest) > READ_BYTES:  # a line without an end
            whole.append(self._rest)
            self._rest = b""
        return lines + [_shown(line) for line in whole]


def _shown(line: bytes) -> str:
    text = line[: 4 * MAX_LINE_CHARACTERS].decode(errors="replace").rstrip("\r")
    shown = escaped(text)
    return shown if len(shown) <= MAX_LINE_CHARACTERS else shown[:MAX_LINE_CHARACTERS] + "…"


INTERVAL_S: Final = 1.0
ANSWER_TIMEOUT_S: Final = 3.0  # a daemon answers in milliseconds; one that hangs is soon said to
LOOK_INTERVAL_S: Final = 3.0  # a look at the processes costs up to a millisecond for each


Uses = Mapping[int, Use]
"""By process group, which is the pid of the server."""


class Answer(NamedTuple):
    """The daemon's status or the reason for its silence, and the use of the servers' processes."""

    status: Status | None
    problem: str | None
    uses: Uses
    at: float
    """When, by `time.monotonic()`."""


class Host(Protocol):
    """The app as its screens see it."""

    answer: Answer
    """The last one."""
    overview: Overview
    """Of the last answer that had a status."""

    def row(self, name: str) -> Row | None: ...
    def use_of(self, row: Row) -> Use | None: ...
    def want_uses(self, *, of_rows: bool) -> None: ...
    def show_details(self, server: str) -> None: ...
    def show_log(self, server: str) -> None: ...
    def restart(self, server: str) -> None: ...
    def switch(self, server: str) -> None: ...


def _in_thread(work: Callable[[], tuple[str, bool]], done: Callable[[str, bool], None]) -> None:
    """Do something for the person in a thread of its own, and say how it went."""

    def perform() -> None:
        try:
            said, is_good = work()
        except Exception as error:  # noqa: BLE001 - the boundary: the person is told, whatever it was
            said, is_good = str(error), False
        done(said, is_good)

    threading.Thread(target=perform, name="mcpx-top-work", daemon=True).start()


class Polling:
    """Asks one daemon every second."""

    def __init__(self, paths: DaemonPaths) -> None:
        self.paths = paths
        self.wants_uses = False
        """Whether anybody looks at what the processes use."""
        self._figures = ProcessFigures()
        self._uses: Uses = {}
        self._look_due = 0.0
        self._ended = threading.Event()

    def ask(self) -> Status:
        """Ask the daemon for its status.

        Raises:
            MCPXError: There is none, or it does not answer, or not so that it can be read.
        """
        return converted(request_or_fail(self.paths, {"mcpx": "status"}, within=ANSWER_TIMEOUT_S))

    def begin(self, took: Callable[[Answer], None]) -> None:
        """Ask every second, until `end`, and hand on each answer."""
        threading.Thread(target=self._run, args=(took,), name="mcpx-top", daemon=True).start()

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()

    def restart(self, server: str, done: Callable[[str, bool], None]) -> None:
        """Restart a server, and say how it went, and whether it went well."""

        def restarted() -> tuple[str, bool]:
            control_request = {"mcpx": "restart", "server": server}
            response = request_or_fail(self.paths, control_request, within=RELOAD_TIMEOUT_S)
            return f"restarted {server}: {response['state']}", True

        _in_thread(restarted, done)

    def switch(self, server: str, done: Callable[[str, bool], None], *, on: bool) -> None:
        """Switch a server on or off in the configuration, by the command for it, and say how it went.

        One whose entry runs commands of its own is not switched on: who does so has to see them.
        """
        what = "enable" if on else "disable"
        config = os.path.realpath(self.paths.config)
        line = [sys.executable, "-P", "-m", "mcpx", what, server, "--config", config]

        def switched() -> tuple[str, bool]:
            ended = run(line, os.environ, timeout_s=RELOAD_TIMEOUT_S, with_errors=True)
            if ended.code == 0:
                return f"{what}d {server}", True
            return ended.last_line or f"mcpx {what} failed", False

        _in_thread(switched, done)

    def log_of(self, server: str, status: Status) -> Path:
        """The file with what a server says on standard error; the daemon may have another state folder."""
        folder = Path(status.daemon.folder) if status.daemon.folder else self.paths.folder
        return server_log_path(server, folder)

    def _run(self, took: Callable[[Answer], None]) -> None:
        while not self._ended.wait(INTERVAL_S):
            status, problem = None, None
            try:
                status = self.ask()
                self._look(status)
            except MCPXError as error:
                problem = str(error)
            except Exception as error:  # noqa: BLE001 - the boundary: whatever answers, it is asked again
                problem = f"what the daemon answers cannot be shown ({type(error).__name__}: {error})"
            if not self._ended.is_set():
                took(Answer(status, problem, self._uses, time.monotonic()))

    def _look(self, status: Status) -> None:
        if self.wants_uses and time.monotonic() >= self._look_due:
            groups = [server.pid for server in status.servers if server.pid is not None]
            self._uses = self._figures.look(groups)
            self._look_due = time.monotonic() + LOOK_INTERVAL_S

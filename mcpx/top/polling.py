"""Asking the daemon for `mcpx top`: in threads, so that a daemon that hangs never stops the screen.

The threads end with the process, whatever they wait for. `took` is called in them; what it does there must be
safe from another thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from mcpx.cli.changing import RELOAD_TIMEOUT_S
from mcpx.cli.status_table import converted
from mcpx.core.daemon.control_client import request_or_fail
from mcpx.core.daemon.status import Status
from mcpx.core.system.paths import DaemonPaths
from mcpx.core.system.processes import ProcessFigures, Use
from mcpx.core.telemetry.server_log import server_log_path
from mcpx.errors import MCPXError

INTERVAL_S: Final = 1.0
ANSWER_TIMEOUT_S: Final = 3.0  # a daemon answers in milliseconds; one that hangs is soon said to
LOOK_INTERVAL_S: Final = 3.0  # a look at the processes costs up to a millisecond for each


Uses = Mapping[int, Use]
"""By process group, which is the pid of the server."""


class Answer(NamedTuple):
    """What the daemon has said, or why it has not, and what the servers' processes use."""

    status: Status | None
    problem: str | None
    uses: Uses
    at: float
    """When, by `time.monotonic()`."""


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
        """What the daemon says now.

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

        def perform() -> None:
            control_request = {"mcpx": "restart", "server": server}
            try:
                response = request_or_fail(self.paths, control_request, within=RELOAD_TIMEOUT_S)
                said, is_good = f"restarted {server}: {response['state']}", True
            except Exception as error:  # noqa: BLE001 - the boundary: the person is told, whatever it was
                said, is_good = str(error), False
            done(said, is_good)

        threading.Thread(target=perform, name="mcpx-top-restart", daemon=True).start()

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

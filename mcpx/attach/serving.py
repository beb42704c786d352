"""`mcpx serve` that cannot start: its client is served as by `mcpx attach`, and the servers when they can be.

They get a process of their own then, another `mcpx serve`, at the other end of a pair of sockets.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Final

from mcpx.attach.command import serve_client
from mcpx.attach.connecting import NO_CONFIG, Connecting, NoDaemon
from mcpx.core.daemon.launch import BAD_CONFIG, START_TIMEOUT_S, ConfigProblemError, StartFailedError
from mcpx.core.daemon.startup_report import STARTED, StartupReport
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.system.paths import DaemonPaths, daemon_paths
from mcpx.errors import DaemonError

END_TIMEOUT_S: Final = 30.0  # for the process to end its servers, when the client has left


def serve_nevertheless(problem: str, config: str | None, endpoint: Endpoint, arguments: list[str]) -> bool:
    """Serve the client on standard input and output, though `mcpx ARGUMENTS` cannot, because of `problem`.

    Returns whether in the end it could.
    """
    try:
        paths = daemon_paths(config)
    except DaemonError as error:
        serve_client(NoDaemon(str(error)), endpoint)
        return False
    connecting = _Connecting(paths, arguments, problem)
    try:
        serve_client(connecting, endpoint)
    finally:
        connecting.close()
    return connecting.has_served


class _Connecting(Connecting):
    """Connections to processes of this shim's own, one after the other."""

    greets = False

    def __init__(self, paths: DaemonPaths, arguments: list[str], problem: str) -> None:
        super().__init__(paths)
        self._arguments = arguments
        self._processes: list[subprocess.Popen[bytes]] = []
        self._complained = problem  # the command has said it
        self.give_up(problem, trouble=NO_CONFIG)

    @property
    def has_served(self) -> bool:
        """Whether the last attempt has not failed."""
        return self._given_up is None

    def begin(self) -> None:
        """It has failed just now."""

    def existing(self) -> socket.socket | None:
        return None

    def was_stopped(self) -> bool:
        return False

    def _launch(self) -> _ServeLauncher:
        return _ServeLauncher(self._arguments, self._processes)

    def close(self) -> None:
        """Wait for the processes; their clients have left."""
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_TIMEOUT_S)


class _ServeLauncher:
    """One `mcpx ARGUMENTS`, which is added to `processes`."""

    def __init__(self, arguments: list[str], processes: list[subprocess.Popen[bytes]]) -> None:
        self._arguments = arguments
        self._processes = processes
        self._deadline = time.monotonic() + START_TIMEOUT_S
        self._report = StartupReport()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None

    def poll(self) -> socket.socket | None:
        """As of `DaemonLauncher`."""
        if self._process is None:
            self._process = self._start()
            self._processes.append(self._process)
        reported = self._report.read()
        if reported == STARTED:
            connection, self._connection = self._connection, None
            return connection
        if (code := self._process.poll()) is not None:
            if code == BAD_CONFIG:
                raise ConfigProblemError(reported)
            raise StartFailedError(reported or f"mcpx serve ended at once (exit code {code})")
        if time.monotonic() > self._deadline:
            self._process.kill()
            raise StartFailedError(f"mcpx serve does not start within {START_TIMEOUT_S:g} s")
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        self._connection, theirs = socket.socketpair()
        with theirs:
            try:
                return subprocess.Popen(
                    [sys.executable, "-P", "-m", "mcpx", *self._arguments],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    env={**os.environ, **self._report.environment},
                    pass_fds=(self._report.descriptor,),
                )
            except OSError as error:
                raise StartFailedError(f"cannot start {sys.executable}: {error.strerror}") from None

    def close(self) -> None:
        """Release what the caller was not given."""
        self._report.close()
        if self._connection is not None:
            self._connection.close()

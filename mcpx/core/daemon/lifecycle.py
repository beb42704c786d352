"""Starting and ending a daemon from outside, with every wait bounded. Used by `mcpx daemon`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from mcpx.core.daemon.control_client import request, request_or_fail
from mcpx.core.daemon.launch import START_TIMEOUT_S, DaemonLauncher
from mcpx.core.system.locks import take_lock
from mcpx.core.system.paths import POLL_INTERVAL_S, DaemonPaths, claim_folder, lock_owner_pid
from mcpx.errors import MCPXError
from mcpx.paths import config_hint
from mcpx.version import __version__

IDLE_LOOK_S: Final = 0.3
QUIET_LOOKS: Final = 3  # in a row: a model often makes its next call at once
STOP_TIMEOUT_S: Final = 30.0  # for the longest orderly end: grace time, the servers' teardown, a margin


def start(paths: DaemonPaths, *, lock: int | None = None) -> bool:
    """Ensure that a daemon answers; whether this call started it.

    Raises:
        MCPXError: None answers.
    """
    launcher = DaemonLauncher(paths, lock=lock)
    try:
        launcher.wait().close()
        if launcher.started is not None:  # it listens before it can serve
            request_or_fail(paths, {"mcpx": "status"}, within=START_TIMEOUT_S)
        return launcher.started is not None
    finally:
        launcher.close()


def waiting_upgrade(about: Mapping[str, Any], config: str) -> dict[str, str] | None:
    """`{installed, command}` where this MCPX is another than the daemon that says this of itself."""
    if about.get("version", __version__) == __version__:
        return None
    return {"installed": __version__, "command": f"mcpx daemon restart --when-idle{config_hint(config)}"}


def wait_until_idle(paths: DaemonPaths) -> None:
    """Wait until no server has a call that runs or waits; returns at once where no daemon runs.

    Raises:
        MCPXError: The daemon does not answer.
    """
    quiet = 0
    while quiet < QUIET_LOOKS:
        if (answer := request(paths, {"mcpx": "status"})) is None:
            return
        busy = any(each["in_flight"] or each["queued"] for each in answer["servers"])
        quiet = 0 if busy else quiet + 1
        time.sleep(IDLE_LOOK_S)


def stop(paths: DaemonPaths, *, marked: bool) -> int | None:
    """End the daemon and wait until it has gone; its process id, or None if there was none.

    `marked` records that it was on purpose: then shims start the next one only for a request of their client.

    Raises:
        MCPXError: It does not end.
    """
    pid = lock_owner_pid(paths)
    if pid is None:
        return None
    if marked:
        with suppress(OSError):  # a full disk costs the mark: a shim may start the next daemon by itself
            paths.stopped.touch(mode=0o600)
    response = None
    with suppress(MCPXError):  # one that hangs gets a signal
        response = request(paths, {"mcpx": "stop"})
    if response is None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    if not _within(STOP_TIMEOUT_S, lambda: lock_owner_pid(paths) != pid):
        raise MCPXError(
            f"the daemon (pid {pid}) does not leave within {STOP_TIMEOUT_S:g} s; run: kill -9 {pid}"
        )
    return pid


@contextmanager
def startup_lock(paths: DaemonPaths) -> Iterator[int]:
    """Keep others from starting a daemon; the lock, for `start`.

    Raises:
        MCPXError: Another process holds it for too long.
    """
    claim_folder(paths)
    deadline = time.monotonic() + START_TIMEOUT_S
    while (lock := take_lock(paths.starting)) is None:
        if time.monotonic() > deadline:
            raise MCPXError(f"somebody has been starting a daemon for {START_TIMEOUT_S:g} s; see {paths.log}")
        time.sleep(POLL_INTERVAL_S)
    try:
        yield lock
    finally:
        with suppress(OSError):  # `start` has closed it
            os.close(lock)


def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True

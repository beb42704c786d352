"""The daemons of this user from outside: start one, end it, and list those that run; every wait is bounded.

Whoever holds the lock of a configuration is its daemon; how it does is asked over its socket. Daemons with
another state folder (`MCPX_STATE_DIR`) are not seen. Used by `mcpx daemon`.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpx.core.daemon.control_client import request, request_or_fail
from mcpx.core.daemon.launch import START_TIMEOUT_S, DaemonLauncher
from mcpx.core.store.paths import (
    POLL_INTERVAL_S,
    DaemonPaths,
    LockOwner,
    check_runtime_folder,
    claim_folder,
    daemon_paths,
    lock_owner,
    lock_owner_pid,
    paths_named,
    take_lock,
)
from mcpx.errors import MCPXError
from mcpx.paths import config_hint, runtime_folder
from mcpx.version import __version__

IDLE_LOOK_S: Final = 0.3
QUIET_LOOKS: Final = 3  # in a row: a model often makes its next call at once
STATUS_TIMEOUT_S: Final = 3.0  # for one that runs to say how it is; it does so at once
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


def running_version() -> dict[str, Any] | None:
    """`{version, pid}` of the daemon of the usual configuration; None where none answers."""
    with suppress(MCPXError, OSError):
        if (answer := request(daemon_paths(), {"mcpx": "status"}, within=STATUS_TIMEOUT_S)) is not None:
            return {name: answer["daemon"][name] for name in ("version", "pid")}
    return None


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


# --- those that run


class RunningDaemon(NamedTuple):
    """A daemon, by its files and by the process that holds its lock."""

    paths: DaemonPaths
    owner: LockOwner


def running_daemons() -> list[RunningDaemon]:
    """The daemons that run, the oldest first.

    Raises:
        DaemonError: The folder of their sockets is not this user's alone.
    """
    folder = runtime_folder()
    if not folder.exists():
        return []
    check_runtime_folder(folder)
    owners = {path.stem: lock_owner(path) for path in folder.glob("*.lock")}
    found = [
        RunningDaemon(paths_named(name, owner.config), owner)
        for name, owner in owners.items()
        if owner is not None
    ]
    return sorted(found, key=lambda each: each.owner.since)


def report(config: str | None = None) -> list[dict[str, Any]]:
    """Return a row for each daemon, or for that of one configuration, as `mcpx daemon list --json` prints it.

    `servers` counts those of its configuration, `ready` and `asleep` those in these states. One that does not
    answer has an `error` in place of `version`, `clients` and the servers.

    Raises:
        DaemonError: As `running_daemons`.
    """
    found = running_daemons()
    if config is not None:
        lock = daemon_paths(config).lock
        found = [daemon for daemon in found if daemon.paths.lock == lock]
    with ThreadPoolExecutor(max(1, len(found))) as threads:
        return list(threads.map(_row, found))


def located(paths: DaemonPaths) -> DaemonPaths:
    """`paths`, with the files that the daemon itself writes, if one runs: its state folder may be another."""
    try:
        status = request(paths, {"mcpx": "status"}, within=STATUS_TIMEOUT_S)
    except MCPXError:
        return paths
    folder = ((status or {}).get("daemon") or {}).get("folder")
    if not isinstance(folder, str):
        return paths
    return paths._replace(folder=Path(folder), log=Path(folder) / paths.log.name)


def _row(daemon: RunningDaemon) -> dict[str, Any]:
    paths, owner = daemon
    since = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(owner.since))
    row: dict[str, Any] = {"config": paths.config, "pid": owner.pid, "since": since}
    files = {"socket": str(paths.socket), "log": str(paths.log)}  # the log, as long as it is not known
    try:
        status = request(paths, {"mcpx": "status"}, within=STATUS_TIMEOUT_S)
    except MCPXError as error:
        return {**row, "error": str(error), **files}
    if status is None:
        return {**row, "error": "it does not listen: it is starting or ending", **files}
    states = Counter(server["state"] for server in status["servers"])
    return {
        **row,
        "version": status["daemon"]["version"],
        "clients": status["daemon"]["clients"],
        "servers": len(status["servers"]),
        "ready": states["ready"],
        "asleep": states["asleep"],
        **files,
        "log": status["daemon"].get("log", files["log"]),
    }

"""The daemons of this user that run, of whatever configuration: `mcpx daemon list`, `mcpx daemon stop --all`.

Whoever holds the lock of a configuration is its daemon; how it does it is asked over its socket. Daemons with
another state folder (`MCPX_STATE_DIR`) are not seen.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpx.core.daemon.control_client import request
from mcpx.core.system.locks import LockOwner, lock_owner
from mcpx.core.system.paths import DaemonPaths, check_runtime_folder, daemon_paths, paths_named
from mcpx.errors import MCPXError
from mcpx.paths import runtime_folder

STATUS_TIMEOUT_S: Final = 3.0  # for one that runs to say how it is; it does so at once


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
    """What `mcpx daemon list --json` prints: an object for each daemon, or for that of one configuration.

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

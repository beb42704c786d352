"""The files of a daemon: one socket, lock and log for each user and configuration; connecting to it.

Imported by `mcpx attach`, so standard library only. A digest of the configuration's real path names the
files, so that a configuration has one daemon, whichever link it is reached through. The socket's folder must
belong to this user and be closed to others; functions that cannot ensure that raise.

The process that holds the lock (`acquire_lock`) is the daemon, whatever other files there are; another lock
says who starts one. The kernel gives a lock back when its process ends, so that whoever holds it lives. A
lock file that nobody holds may be removed (`mcpx.core.store.stale`), by one who holds it: whoever takes one
makes sure that its file is still there.
"""

from __future__ import annotations

import errno
import os
import shlex
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from mcpx.core.store.folders import ensure_folder, others_may_change, replaceable_above
from mcpx.core.system.linux import LINUX, short_path
from mcpx.core.system.locks import is_held, try_lock
from mcpx.errors import DaemonError
from mcpx.paths import CONFIGURATIONS, config_file, digest, runtime_folder, state_folder

MAX_LOCK_BYTES: Final = 8192  # of a lock file: a process id, and a path


def unusable(path: Path, error: OSError) -> DaemonError:
    """The error for a file of the daemon that cannot be used: why, and what to do."""
    full = "make room, or " if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
    return DaemonError(f"{path}: {error.strerror or error}; {full}name another folder with MCPX_STATE_DIR")


class LockOwner(NamedTuple):
    """The process that holds a lock. `config` is the configuration that it serves, as it was given."""

    pid: int
    config: str
    since: float
    """When it took the lock, in seconds since the epoch."""


def take_lock(path: Path) -> int | None:
    """Take the lock at `path` if it is free: a descriptor, which holds it until it is closed; else None.

    Raises:
        DaemonError: The file cannot be opened, or nothing can be locked there.
    """
    try:
        return try_lock(path)
    except OSError as error:
        raise unusable(path, error) from None


def sign_lock(lock: int, path: Path, config: str) -> None:
    """Write into the lock at `path`, which this process holds, who holds it and what it serves.

    Raises:
        DaemonError: The disk takes nothing.
    """
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, os.fsencode(f"{os.getpid()}\n{config}"), 0)
    except OSError as error:
        os.close(lock)
        raise unusable(path, error) from None


def lock_owner(path: Path) -> LockOwner | None:
    """The process that holds the lock at `path`; None if none does."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if not is_held(lock):
            return None
        pid, _, config = os.fsdecode(os.pread(lock, MAX_LOCK_BYTES, 0)).partition("\n")
        return LockOwner(int(pid), config, os.fstat(lock).st_mtime) if pid.isdecimal() else None
    finally:
        os.close(lock)


MAX_SOCKET_PATH: Final = 100  # bytes of a socket's path that any system takes; macOS takes 103, Linux 107
LOCK_TIMEOUT_S: Final = 25.0  # for the previous daemon to end: its grace time, its servers' teardown
POLL_INTERVAL_S: Final = 0.02  # for whatever is awaited from another process


class DaemonPaths(NamedTuple):
    """The files of one daemon. `config` is absolute, and may be a link."""

    config: str
    socket: Path
    lock: Path
    """Held by the daemon for its life; holds its process id and its configuration."""
    starting: Path
    """Held while a daemon is started, so that only one of many callers starts it."""
    stopped: Path
    """Exists if the daemon was ended on purpose, by command or signal: a shim then starts the next one only
    for a request of its client. The next daemon removes it."""
    folder: Path
    """What is kept for this configuration alone, whether a daemon serves it or not."""
    log: Path


def daemon_paths(config: str | os.PathLike[str] | None = None) -> DaemonPaths:
    """The paths for the configuration in that file, or in the usual one. Creates nothing.

    Raises:
        DaemonError: The folder's name is too long for a socket, on a system where that cannot be helped; or
            the user has no home folder.
    """
    try:
        return _daemon_paths(config_file(None if config is None else os.fspath(config)))
    except FileNotFoundError as error:  # no home folder, or for a relative name no working folder
        raise DaemonError(error.strerror) from None


def _daemon_paths(given: Path) -> DaemonPaths:
    real, absolute = os.path.realpath(given), os.path.abspath(given)
    if os.path.realpath(absolute) != real:  # a `..` behind a linked folder
        absolute = real
    name = digest(real)
    if absolute != real:
        name = _served_through(absolute) or name
    return paths_named(name, absolute)


def paths_named(name: str, config: str) -> DaemonPaths:
    """The files of that name, as `digest` makes it from the configuration's real path.

    Raises:
        DaemonError: As `daemon_paths`.
    """
    path = runtime_folder() / f"{name}.sock"
    if is_long(path) and not LINUX:
        raise DaemonError(f"{path}: too long for a socket; name a shorter folder with MCPX_STATE_DIR")
    folder = state_folder() / CONFIGURATIONS / name
    return DaemonPaths(
        config=config,
        socket=path,
        lock=path.with_suffix(".lock"),
        starting=path.with_suffix(".starting"),
        stopped=path.with_suffix(".stopped"),
        folder=folder,
        log=folder / "daemon.log",
    )


def _served_through(link: str) -> str | None:
    """The name of the daemon that was started for this link, if it lives: the link may lead elsewhere now."""
    try:
        name = _alias(link).readlink().name
    except OSError:
        return None
    owner = lock_owner(runtime_folder() / f"{name}.lock")
    return name if owner is not None and owner.config == link else None


def _alias(link: str) -> Path:
    """A file that leads from a link to the name of its daemon."""
    return runtime_folder() / f"{digest(link)}.alias"


def is_long(path: Path) -> bool:
    """Return True if it may be too long for the path of a socket."""
    return len(os.fsencode(path)) > MAX_SOCKET_PATH


@contextmanager
def address(path: Path) -> Iterator[str]:
    """A socket's path in a form that the system accepts: a long one through its open folder.

    Raises:
        OSError: The folder of a long one cannot be opened.
    """
    if not is_long(path):
        yield str(path)
        return
    with short_path(path) as short:
        yield short


def check_state_folder() -> None:
    """Refuse a state folder that others may change, or replace. One that cannot be seen itself passes.

    Raises:
        DaemonError: It, or a folder above it, is another user's, or open to others.
    """
    folder = state_folder()
    if (above := replaceable_above(folder)) is not None:
        raise DaemonError(
            f"{folder}: others may replace it, for they may change {above}; name another folder with"
            " MCPX_STATE_DIR"
        )
    try:
        found = folder.stat()
    except OSError:
        return
    if others_may_change(found):
        raise _not_ours(folder)


def _not_ours(folder: Path) -> DaemonError:
    return DaemonError(f"{folder}: others may change it; name another folder with MCPX_STATE_DIR")


def claim_folder(paths: DaemonPaths) -> None:
    """Create the socket's folder, or check that it is this user's alone, as the state folder must be.

    Raises:
        DaemonError: It cannot be made, belongs to somebody else, or others may enter it.
    """
    check_state_folder()
    folder = paths.socket.parent
    try:
        ensure_folder(folder.parent)
        ensure_folder(folder)
    except OSError as error:
        raise unusable(folder, error) from None
    check_runtime_folder(folder)


def check_runtime_folder(folder: Path) -> None:
    """Refuse a folder for sockets that is not this user's alone.

    Raises:
        DaemonError: It cannot be seen, belongs to somebody else, or others may enter it.
    """
    try:
        above, found = folder.parent.stat(), folder.lstat()
    except OSError as error:
        raise unusable(folder, error) from None
    if others_may_change(above, sticky_is_safe=True):
        raise _not_ours(folder.parent)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise DaemonError(f"{folder}: not a folder of yours; name another with MCPX_STATE_DIR")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise DaemonError(
            f"{folder}: open to others (mode {mode:o}); run: chmod 700 {shlex.quote(str(folder))}"
        )


def connect(paths: DaemonPaths) -> socket.socket | None:
    """A connection to the daemon; None if nobody listens.

    Raises:
        DaemonError: The socket is another user's, or cannot be reached.
    """
    try:
        if paths.socket.lstat().st_uid != os.getuid():
            raise DaemonError(f"{paths.socket}: belongs to another user; name a folder with MCPX_STATE_DIR")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(paths.socket, error) from None
    connection = socket.socket(socket.AF_UNIX)
    try:
        with address(paths.socket) as path:
            connection.connect(path)
    except OSError:  # refused: its daemon is gone
        connection.close()
        return None
    return connection


def acquire_lock(paths: DaemonPaths) -> int:
    """Become the daemon: the lock, held until the descriptor is closed. Waits for a daemon that is ending.

    Raises:
        DaemonError: Another daemon runs, or does not end; or the folder cannot be used.
    """
    claim_folder(paths)
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while (lock := take_lock(paths.lock)) is None:
        other = connect(paths)
        if other is not None or time.monotonic() > deadline:
            pid = lock_owner_pid(paths)
            if other is None:
                raise DaemonError(f"the daemon before this one (pid {pid}) does not leave: kill {pid}")
            other.close()
            raise DaemonError(
                f"a daemon serves {paths.config} already (pid {pid}); to see it: mcpx daemon status"
            )
        time.sleep(POLL_INTERVAL_S)
    sign_lock(lock, paths.lock, paths.config)
    _note_alias(paths)
    return lock


def _note_alias(paths: DaemonPaths) -> None:
    """Let whoever comes by the same link find this daemon, wherever the link will lead."""
    alias, name = _alias(paths.config), paths.lock.stem
    if alias.stem == name:
        return
    with suppress(OSError):
        alias.unlink(missing_ok=True)
        alias.symlink_to(name)


def lock_owner_pid(paths: DaemonPaths) -> int | None:
    """The process id of the daemon; None if none holds the lock."""
    owner = lock_owner(paths.lock)
    return None if owner is None else owner.pid

"""The files of a daemon: one socket, lock and log for each user and configuration; connecting and locking.

Imported by `mcpx attach`, so standard library only. A digest of the configuration's absolute path names the
files. The process that holds the lock (`acquire_lock`) is the daemon, whatever other files there are. The
socket's folder must belong to this user and be closed to others; functions that cannot ensure that raise.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from mcpx.errors import MCPXError
from mcpx.paths import config_file, ensure_folder, others_may_change, runtime_folder, state_folder

LINUX: Final = sys.platform.startswith("linux")
MAX_SOCKET_PATH: Final = 100  # bytes of a socket's path that any system takes; macOS takes 103, Linux 107
LOCK_TIMEOUT_S: Final = 25.0  # for the previous daemon to end: its grace time, its servers' teardown
POLL_INTERVAL_S: Final = 0.02  # for whatever is awaited from another process


class DaemonError(MCPXError):
    """The daemon cannot be reached or started, or this process cannot be it; the text says what to do."""


class DaemonPaths(NamedTuple):
    """The files of one daemon. `config` is absolute."""

    config: str
    socket: Path
    lock: Path
    """Held by the daemon for its life; holds its process id."""
    starting: Path
    """Held while a daemon is started, so that only one of many callers starts it."""
    stopped: Path
    """Exists if the daemon was ended on purpose, by command or signal: a shim then starts the next one only
    for a request of its client. The next daemon removes it."""
    log: Path


def daemon_paths(config: str | os.PathLike[str] | None = None) -> DaemonPaths:
    """The paths for the configuration in that file, or in the usual one. Creates nothing.

    Raises:
        DaemonError: The folder's name is too long for a socket, on a system where that cannot be helped.
    """
    absolute = os.path.abspath(config_file(None if config is None else os.fspath(config)))  # noqa: PTH100 - `..` goes too
    name = digest(absolute)
    folder = runtime_folder()
    path = folder / f"{name}.sock"
    if is_long(path) and not LINUX:
        raise DaemonError(f"{path}: too long for a socket; name a shorter folder with MCPX_STATE_DIR")
    return DaemonPaths(
        config=absolute,
        socket=path,
        lock=path.with_suffix(".lock"),
        starting=path.with_suffix(".starting"),
        stopped=path.with_suffix(".stopped"),
        log=state_folder() / f"daemon-{name}.log",
    )


def is_long(path: Path) -> bool:
    """Whether it may be too long for the path of a socket."""
    return len(os.fsencode(path)) > MAX_SOCKET_PATH


@contextmanager
def address(path: Path) -> Iterator[str]:
    """A socket's path in a form that the system accepts: a long one through its open folder (proc(5)).

    Raises:
        OSError: The folder of a long one cannot be opened.
    """
    if not is_long(path):
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def digest(text: str) -> str:
    """FNV-1a in sixteen hexadecimal digits: enough for one user's files, with nothing to import."""
    value = 0xCBF29CE484222325
    for byte in os.fsencode(text):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def check_state_folder() -> None:
    """Refuse a state folder that others may change. One that does not exist, or cannot be seen, passes.

    Raises:
        DaemonError: It is another user's, or open to others.
    """
    folder = state_folder()
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
        above, found = folder.parent.stat(), folder.lstat()
    except OSError as error:
        problem = error.strerror or str(error)
        raise DaemonError(f"{folder}: {problem}; name another folder with MCPX_STATE_DIR") from None
    if others_may_change(above, sticky_is_safe=True):
        raise _not_ours(folder.parent)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise DaemonError(f"{folder}: not a folder of yours; name another with MCPX_STATE_DIR")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise DaemonError(f"{folder}: open to others (mode {mode:o}); run: chmod 700 {folder}")


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
        problem = f"{error.strerror}; name another folder with MCPX_STATE_DIR"
        raise DaemonError(f"{paths.socket}: {problem}") from None
    connection = socket.socket(socket.AF_UNIX)
    try:
        with address(paths.socket) as path:
            connection.connect(path)
    except OSError:  # refused: its daemon is gone
        connection.close()
        return None
    return connection


def open_lock(path: Path) -> int:
    """A descriptor of the lock file, which is never removed: a lock on a removed file locks nothing.

    Raises:
        DaemonError: It cannot be opened.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise DaemonError(f"{path}: {error.strerror}; name another folder with MCPX_STATE_DIR") from None


def try_lock(lock: int) -> bool:
    """Take the lock if it is free; whether it was."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def acquire_lock(paths: DaemonPaths) -> int:
    """Become the daemon: the lock, held until the descriptor is closed. Waits for a daemon that is ending.

    Raises:
        DaemonError: Another daemon runs, or does not end; or the folder cannot be used.
    """
    claim_folder(paths)
    lock = open_lock(paths.lock)
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while not try_lock(lock):
        other = connect(paths)
        if other is not None or time.monotonic() > deadline:
            pid = lock_owner_pid(paths)
            os.close(lock)
            if other is None:
                raise DaemonError(f"the daemon before this one (pid {pid}) does not leave; end it first")
            other.close()
            raise DaemonError(f"a daemon serves {paths.config} already (pid {pid})")
        time.sleep(POLL_INTERVAL_S)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def lock_owner_pid(paths: DaemonPaths) -> int | None:
    """The process id of the daemon; None if none holds the lock."""
    try:
        lock = os.open(paths.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if try_lock(lock):
            return None
        written = os.pread(lock, 32, 0)
        return int(written) if written.isdigit() else None
    finally:
        os.close(lock)

"""The locks of daemons: who is the daemon of a configuration, and who starts one.

Imported by `mcpx attach`, so standard library only. The kernel gives a lock back when its process ends, so
that whoever holds it lives. A lock file that nobody holds may be removed (`mcpx.core.system.stale`), by one
who holds it: whoever takes a lock makes sure that its file is still there.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Final, NamedTuple

from mcpx.core.store.private_files import try_lock
from mcpx.errors import DaemonError

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
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: who else looks does not count as the owner
    except OSError:
        pid, _, config = os.fsdecode(os.pread(lock, MAX_LOCK_BYTES, 0)).partition("\n")
        return LockOwner(int(pid), config, os.fstat(lock).st_mtime) if pid.isdecimal() else None
    else:
        return None
    finally:
        os.close(lock)

"""Locks of the kernel on files and folders (flock(2)): one ends with its process, whatever ends that.

Every wait for one has an end. Each function blocks, and raises `OSError` for what the system refuses.
Standard library only: `mcpx attach` imports this.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
"""To open a file that is locked and kept, which is created if there is none."""
_LOCK_POLL_S: Final = 0.01


@contextmanager
def locked(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Keep other processes out meanwhile, by a lock on a folder, or on a file that is made if there is none.

    Raises:
        OSError: It cannot be opened.
        BlockingIOError: Another process holds the lock for all of `timeout_s`.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC if path.is_dir() else LOCK_FLAGS
    descriptor = os.open(path, flags, 0o600)
    try:
        _wait_for_lock(descriptor, path, time.monotonic() + timeout_s)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, path: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise BlockingIOError(errno.EWOULDBLOCK, "another process has it locked", str(path)) from None
            time.sleep(_LOCK_POLL_S)
        else:
            return


def try_lock(path: Path) -> int | None:
    """Lock a file, made if there is none, without waiting: a descriptor that holds the lock until closed.

    None if another process holds it, or has removed the file meanwhile: such a lock would lock nothing.

    Raises:
        OSError: It cannot be opened, or nothing can be locked there.
    """
    descriptor = os.open(path, LOCK_FLAGS, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def is_held(descriptor: int) -> bool:
    """Return True if another process holds the lock of an open file; who looks as well does not count."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False

"""Linux's own forms: whether they are used, and what its files say of this process and its machine.

Other systems have none of them, and POSIX's form stands beside each: `ps` for the files in /proc, a look now
and then for a pidfd, polling for inotify, the folder of a socket for its peer. With `MCPX_POSIX_ONLY` set,
which is read here alone, a Linux goes without them as well: so the tests run what macOS runs
(CONTRIBUTING.md).

Standard library only: `mcpx attach` imports this.
"""

from __future__ import annotations

import fcntl
import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Final

HIDDEN: Final = bool(os.environ.get("MCPX_POSIX_ONLY"))
"""True if Linux's forms are hidden, whatever the system."""
LINUX: Final = sys.platform.startswith("linux") and not HIDDEN
"""True if Linux's forms may be used."""
PLATFORM: Final = sys.platform
"""The system, for what is a matter of habit: folders, services, the command that opens a browser."""
_NOWHERE: Final = "/dev/null/hidden"
PROC: Final = Path("/proc" if LINUX else _NOWHERE)
CGROUPS: Final = Path("/sys/fs/cgroup" if LINUX else _NOWHERE)
PIPE_BYTES: Final = 1 << 20  # so that a large message takes fewer turns
_NOT_OF_POSIX: Final = {
    "fcntl": ("F_SETPIPE_SZ",),
    "os": ("pidfd_open", "pipe2", "fdatasync", "posix_fallocate", "posix_fadvise", "memfd_create", "eventfd")
    + (() if sys.version_info >= (3, 13) else ("waitid",)),  # on macOS since then
    "resource": ("prlimit",),
    "signal": ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo"),
    "socket": ("SO_PEERCRED", "TCP_USER_TIMEOUT"),
    "time": ("CLOCK_BOOTTIME",),
}
"""Names that Python has on Linux and not on macOS: where they are hidden, whoever uses one fails as there."""


def _hide() -> None:
    for name, hidden in _NOT_OF_POSIX.items():
        module = import_module(name)
        for each in hidden:
            with suppress(AttributeError):
                delattr(module, each)
            with suppress(AttributeError, ValueError):
                module.__all__.remove(each)


if HIDDEN:
    _hide()


def has_proc() -> bool:
    """True if there is a /proc."""
    return (PROC / "self").exists()


def folder_of_program(pid: int) -> str:
    """The folder of the executable that a process runs.

    Raises:
        OSError: The system does not say.
    """
    return os.path.dirname(os.readlink(f"{PROC}/{pid}/exe"))


def file_system_of(folder: Path) -> set[str]:
    """The kinds of file system that are mounted for the device of a folder; empty where that is not known."""
    try:
        device = os.stat(folder).st_dev
        wanted = f"{os.major(device)}:{os.minor(device)}"
        mounts = (PROC / "self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return {line.partition(" - ")[2].split(" ", 1)[0] for line in mounts if line.split(" ")[2:3] == [wanted]}


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Another path to a file, by its open folder, that any socket can have (proc(5), unix(7)).

    Raises:
        OSError: The folder cannot be opened.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{PROC}/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


# --- pipes


def grow_pipe(fd: int) -> None:
    """Let a pipe hold more than its 64 KiB, where the system allows it (fcntl(2), F_SETPIPE_SZ)."""
    if LINUX:
        with suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def unread_in_pipe(write_fd: int) -> int | None:
    """The bytes that the reader of a pipe has not taken; None where the system does not say (pipe(7))."""
    if not LINUX:
        return None
    try:
        answer = fcntl.ioctl(write_fd, termios.FIONREAD, b"\0\0\0\0")
    except OSError:
        return None
    return int.from_bytes(answer, sys.byteorder)

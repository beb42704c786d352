"""Where a daemon and its clients meet: one socket, lock and log for each user and configuration.

Imported by `mcpx attach`, so standard library only. A digest of the configuration's absolute path names the
files. Who holds the lock (`take_seat`) is the daemon, for as long as it holds it, whatever else lies about.
The socket's folder must be ours and closed to others; every function that cannot vouch for that raises.
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
LONGEST_PATH: Final = 100  # bytes of a socket's path that any system takes; macOS takes 103, Linux 107
SEAT_S: Final = 25.0  # for the daemon before this one to leave: its grace time and its servers' teardown
POLL_S: Final = 0.02  # between two looks for something that is on its way
CONTROL: Final = b'{"mcpx"'
"""How a connection begins that asks the daemon something, instead of being an MCP client's."""

LIMIT_KEY: Final = "max_message_bytes"
"""In what the daemon answers to a shim that greets it: the longest line that it takes."""


class MeetingError(MCPXError):
    """The daemon cannot be reached, started, or be one; the text says what to do."""


class Meeting(NamedTuple):
    """The files of one daemon. `config` is absolute."""

    config: str
    socket: Path
    lock: Path
    """Held by the daemon for its life; holds its process id."""
    starting: Path
    """Held by whoever starts the daemon, so that of many one does."""
    stopped: Path
    """There if the daemon was ended on purpose (by command or signal): shims wait for their client's next
    word. The next daemon takes it away."""
    log: Path


def meeting(config: str | os.PathLike[str] | None = None) -> Meeting:
    """The meeting place for the configuration in that file, or in the usual one. Makes nothing.

    Raises:
        MeetingError: The folder's name is too long for a socket, on a system where that cannot be helped.
    """
    absolute = os.path.abspath(config_file(None if config is None else os.fspath(config)))  # noqa: PTH100 - `..` goes too
    name = digest(absolute)
    folder = runtime_folder()
    path = folder / f"{name}.sock"
    if is_long(path) and not LINUX:
        raise MeetingError(f"{path}: too long for a socket; name a shorter folder with MCPX_STATE_DIR")
    return Meeting(
        config=absolute,
        socket=path,
        lock=path.with_suffix(".lock"),
        starting=path.with_suffix(".starting"),
        stopped=path.with_suffix(".stopped"),
        log=state_folder() / f"daemon-{name}.log",
    )


def is_long(path: Path) -> bool:
    """Whether the system may not take it as the path of a socket."""
    return len(os.fsencode(path)) > LONGEST_PATH


@contextmanager
def address(path: Path) -> Iterator[str]:
    """A socket's path as the system takes it: a long one goes by way of its folder, held open (proc(5)).

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
    """Sixteen hexadecimal digits of FNV-1a: enough for one user's files, and nothing to import."""
    value = 0xCBF29CE484222325
    for byte in os.fsencode(text):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def check_state_folder() -> None:
    """Refuse a state folder that others may change. One that is not there, or cannot be seen, passes.

    Raises:
        MeetingError: It is another user's, or open to others.
    """
    folder = state_folder()
    try:
        found = folder.stat()
    except OSError:
        return
    if others_may_change(found):
        raise _not_ours(folder)


def _not_ours(folder: Path) -> MeetingError:
    return MeetingError(f"{folder}: others may change it; name another folder with MCPX_STATE_DIR")


def claim_folder(place: Meeting) -> None:
    """Make the socket's folder, or check that it is ours alone; so must the state folder be.

    Raises:
        MeetingError: It cannot be made, belongs to somebody else, or others may enter it.
    """
    check_state_folder()
    folder = place.socket.parent
    try:
        ensure_folder(folder.parent)
        ensure_folder(folder)
        above, found = folder.parent.stat(), folder.lstat()
    except OSError as error:
        problem = error.strerror or str(error)
        raise MeetingError(f"{folder}: {problem}; name another folder with MCPX_STATE_DIR") from None
    if others_may_change(above, sticky_is_safe=True):
        raise _not_ours(folder.parent)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise MeetingError(f"{folder}: not a folder of yours; name another with MCPX_STATE_DIR")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise MeetingError(f"{folder}: open to others (mode {mode:o}); run: chmod 700 {folder}")


def connect(place: Meeting) -> socket.socket | None:
    """A connection to the daemon; None where nobody listens.

    Raises:
        MeetingError: The socket is somebody else's, or out of our reach.
    """
    try:
        if place.socket.lstat().st_uid != os.getuid():
            raise MeetingError(f"{place.socket}: belongs to another user; name a folder with MCPX_STATE_DIR")
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = f"{error.strerror}; name another folder with MCPX_STATE_DIR"
        raise MeetingError(f"{place.socket}: {problem}") from None
    joined = socket.socket(socket.AF_UNIX)
    try:
        with address(place.socket) as there:
            joined.connect(there)
    except OSError:  # refused: its daemon is gone
        joined.close()
        return None
    return joined


def open_lock(path: Path) -> int:
    """A descriptor to lock, made if need be; never removed, for a lock on a removed file holds nobody off."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise MeetingError(f"{path}: {error.strerror}; name another folder with MCPX_STATE_DIR") from None


def try_lock(lock: int) -> bool:
    """Take the lock if nobody holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def take_seat(place: Meeting) -> int:
    """Become the daemon: the lock, held until the descriptor is closed. Waits for one that is leaving.

    Raises:
        MeetingError: Another daemon serves, or does not leave; or the folder cannot be used.
    """
    claim_folder(place)
    lock = open_lock(place.lock)
    deadline = time.monotonic() + SEAT_S
    while not try_lock(lock):
        other = connect(place)
        if other is not None or time.monotonic() > deadline:
            pid = holder(place)
            os.close(lock)
            if other is None:
                raise MeetingError(f"the daemon before this one (pid {pid}) does not leave; end it first")
            other.close()
            raise MeetingError(f"a daemon serves {place.config} already (pid {pid})")
        time.sleep(POLL_S)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def holder(place: Meeting) -> int | None:
    """The process id of the daemon that holds the seat; None where nobody does."""
    try:
        lock = os.open(place.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if try_lock(lock):
            return None
        told = os.pread(lock, 32, 0)
        return int(told) if told.isdigit() else None
    finally:
        os.close(lock)

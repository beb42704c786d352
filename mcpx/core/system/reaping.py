"""The end of processes: a child's exit, signals to others, and the limits that end this one.

On Linux a pidfd tells of an exit, and holds a process while it is signalled, so that its id is not reused
meanwhile; /proc/PID/stat tells that one is stopped, or dying. Elsewhere a child is looked at every
`EXIT_POLL_S`, and of the rest nothing is known. Standard library only; imports no event loop.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NoReturn

from mcpx.core.system.linux import PROC

if TYPE_CHECKING:
    import asyncio
    import subprocess

EXIT_POLL_S: Final = 0.05  # where the kernel has no pidfd
SHORTEST_POLL_S: Final = 0.001  # and longer each time
MAX_STAT_BYTES: Final = 2048  # more than a line of /proc/PID/stat can have
FLAGS_FIELD: Final = 6  # field 9 of it, counted from the third
PENDING_FIELD: Final = 28  # field 31, likewise
PF_EXITING: Final = 0x4


class ChildWatch:
    """The kernel's news of one child. `look` is called on the event loop when it may have ended.

    That is once where there is a pidfd, else again and again, until `unwatch`.
    """

    def __init__(self, pid: int, look: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self._look = look
        self._loop = loop
        self._statfd = _open_stat(pid)
        self._pidfd = _open_pidfd(pid)
        self._watches = True
        self._pause_s = 0.0
        self._next: asyncio.Handle | None = None
        if self._pidfd is None:
            self.hurry()
        else:
            self._loop.add_reader(self._pidfd, look)

    @property
    def tells_of_leaving(self) -> bool:
        """True if the kernel tells of a process that is about to end, and at once of its end."""
        return self._pidfd is not None and self._statfd is not None

    def hurry(self) -> None:
        """Look more often for a moment, where it has to be looked for: it seems to be ending."""
        if self._pidfd is None and self._watches:
            if self._next is not None:
                self._next.cancel()
            self._pause_s = SHORTEST_POLL_S
            self._next = self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        self._look()
        if self._watches:
            self._next = self._loop.call_later(self._pause_s, self._poll)
            self._pause_s = min(EXIT_POLL_S, 2 * self._pause_s)

    def unwatch(self) -> None:
        """Look for its exit no more."""
        self._watches = False
        if self._next is not None:
            self._next.cancel()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def close(self) -> None:
        """Let go of the process."""
        self.unwatch()
        if self._statfd is not None:
            os.close(self._statfd)
            self._statfd = None

    def is_stopped(self) -> bool:
        """True if a signal has stopped it (proc(5), state T); False if the system does not say.

        One that a debugger has stopped (state t) does not count.
        """
        return self._stat()[:1] == [b"T"]

    def is_doomed(self) -> bool:
        """True if a fatal signal is pending; False if the system does not say. Takes a few microseconds.

        For an instant it still lives, and a read that it is blocked in still takes what is written. Whatever
        the signal was, the kernel has marked every thread with SIGKILL (proc(5), the pending signals).
        """
        fields = self._stat()
        return len(fields) > PENDING_FIELD and bool(int(fields[PENDING_FIELD]) & 1 << signal.SIGKILL - 1)

    def is_leaving(self) -> bool:
        """True if it closes its files, or is about to; False if the system does not say."""
        fields = self._stat()
        return len(fields) > FLAGS_FIELD and bool(int(fields[FLAGS_FIELD]) & PF_EXITING)

    def _stat(self) -> list[bytes]:
        """The fields of /proc/PID/stat (proc(5)) from the third on; empty if there are none."""
        if self._statfd is None:
            return []
        try:
            return (
                os.pread(self._statfd, MAX_STAT_BYTES, 0).rpartition(b") ")[2].split(b" ", PENDING_FIELD + 1)
            )
        except OSError:  # it is gone, or was stopped
            return []


def is_running(child: subprocess.Popen[bytes]) -> bool:
    """True if a child runs according to the kernel. Where that can be asked, it is not reaped by asking."""
    if child.returncode is not None:
        return False
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except AttributeError:  # macOS, before Python 3.13
        return child.poll() is None


def kill_group(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to the process group of a child that leads one; nothing if it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def group_exists(group: int) -> bool:
    """Return True if this user has a process in that group, be it a dead one."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):  # gone, or somebody else's by now
        return False
    return True


def signal_if(pid: int, number: signal.Signals, is_meant: Callable[[], bool]) -> None:
    """Send a signal to a process, if it `is_meant` while it is held: on Linux its id is not reused then.

    Raises:
        OSError: It is gone, or not ours to signal.
    """
    held = _hold(pid)
    try:
        if not is_meant():
            return
        if held is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(held, number)
    finally:
        if held is not None:
            os.close(held)


# --- of this process


def limit_this_process(*, address_space: int) -> None:
    """Let this process have so many bytes and leave no core; the system may have no such limit."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def take_alarms() -> None:
    """Let an alarm end this process, whatever it is doing: no code of ours has to run for that."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})


def set_alarm(seconds: float) -> None:
    """Have the kernel send an alarm (SIGALRM) after so long, unless another is set before; 0 for none."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in the main thread, whatever it does, if the body takes longer."""

    def give_up(*_: object) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    set_alarm(seconds)
    try:
        yield
    finally:
        set_alarm(0)
        signal.signal(signal.SIGALRM, before)


# --- descriptors


def _hold(pid: int) -> int | None:
    """A pidfd of the process; None if the kernel has none.

    Raises:
        ProcessLookupError: It is gone.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux
        return None


def _open_stat(pid: int) -> int | None:
    try:
        return os.open(f"{PROC}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # not Linux
        return None

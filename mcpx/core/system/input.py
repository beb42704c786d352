"""Input: waiting for it whatever its descriptor, and the terminal that it comes from.

`select.select` raises for a descriptor above 1023, and MCPX raises its own limit far beyond that. So nothing
in MCPX calls it (ruff's `banned-api`), and whoever blocks on a few descriptors does it here (`readable`).

SIGHUP says that the terminal is gone, or that somebody asks for a reload: a process with no terminal is asked
for a reload, one that was started in a terminal ends when that is closed, unless it was started to outlive it
(nohup). SIGTSTP gives the terminal back to the shell. Standard library only.
"""

from __future__ import annotations

import math
import os
import select
import signal
import termios
import tty
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from socket import socket

_MAX_WAIT_MS: Final = (1 << 31) - 1  # of poll(2), 24 days
D = TypeVar("D", bound="IO[bytes] | socket | int")


def readable(sources: Sequence[D], timeout_s: float | None = None) -> list[D]:
    """Wait until one can be read, or is at its end; those of which that is true. Empty at the time-out.

    Without `timeout_s` it waits until then. Blocks.

    Raises:
        OSError: One is closed.
    """
    poll = select.poll()
    by_number = {each if isinstance(each, int) else each.fileno(): each for each in sources}
    for number in by_number:
        poll.register(number, select.POLLIN)
    wait_ms = None if timeout_s is None else min(max(0, math.ceil(timeout_s * 1000)), _MAX_WAIT_MS)
    ready = dict(poll.poll(wait_ms))
    if closed := [number for number, event in ready.items() if event & select.POLLNVAL]:
        raise OSError(f"descriptor {closed[0]} is closed")
    return [each for number, each in by_number.items() if number in ready]


# --- the terminal

Mode = list[Any]
"""The settings of a terminal (termios(3))."""


def mode_of(fd: int) -> Mode:
    """The settings of a terminal, to be put back by `set_mode`."""
    return termios.tcgetattr(fd)


def set_mode(fd: int, mode: Mode) -> None:
    """Put settings in force, once what was written is out."""
    termios.tcsetattr(fd, termios.TCSADRAIN, mode)


def read_keys(fd: int) -> None:
    """Have each key read as it is typed, and none shown; Ctrl-C and its like are signals as before."""
    tty.setcbreak(fd, termios.TCSADRAIN)


def read_unedited(fd: int) -> None:
    """The same, for lines that are longer than the terminal's own editing allows."""
    mode = termios.tcgetattr(fd)
    mode[3] &= ~(termios.ICANON | termios.ECHO)
    set_mode(fd, mode)


def stop_here() -> None:
    """Give the terminal back to the shell until this process is continued (Ctrl-Z, fg)."""
    before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, before)


def on_stop(handler: Callable[..., object]) -> Callable[[], None]:
    """Call `handler` at Ctrl-Z, and have a new size of the window end a wait; return what undoes it."""
    before = signal.signal(signal.SIGWINCH, lambda *_: None), signal.signal(signal.SIGTSTP, handler)

    def undo() -> None:
        signal.signal(signal.SIGWINCH, before[0])
        signal.signal(signal.SIGTSTP, before[1])

    return undo


def outlive_early_hangup() -> None:
    """Ignore a SIGHUP that comes before the process can reload: it has yet to read its configuration.

    Not as SIG_IGN, which the servers would inherit.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)


class Hangup:
    """To be made at the start, before SIGHUP is handled."""

    def __init__(self) -> None:
        is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._ends_with_terminal = _has_terminal() and not is_ignored

    def is_end(self) -> bool:
        """Return True if the SIGHUP that has just come says that the terminal is gone."""
        return self._ends_with_terminal and not _has_terminal()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True

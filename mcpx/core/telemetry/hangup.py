"""The meaning of SIGHUP to a process: that its terminal is gone, or that somebody asks for a reload.

A process with no terminal is asked for a reload. One that was started in a terminal ends when that is closed,
unless it was started to outlive it (nohup).
"""

from __future__ import annotations

import os
import signal


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

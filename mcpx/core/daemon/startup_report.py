"""The reason why a process ended at its start, told to the process that started it.

It comes through a pipe, whose descriptor is named by an environment variable, for a log may be full, or
elsewhere: the command line writes the error that ends it there as well (`mcpx.cli.group`). Standard library
only, for `mcpx attach`.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

VARIABLE: Final = "MCPX_REPORT_FD"
STARTED: Final = "started"
"""The report of `mcpx serve` once it can use its configuration."""
MAX_REPORT_BYTES: Final = 4096  # of the reason; a pipe takes that at once, whoever reads


class StartupReport:
    """The starter's end: pass `descriptor` to the process, with `environment`. `close` it in the end."""

    def __init__(self) -> None:
        self._reading, self.descriptor = os.pipe()
        os.set_blocking(self._reading, False)
        self._reported = b""

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the process needs, beside its own."""
        return {VARIABLE: str(self.descriptor)}

    def read(self) -> str:
        """Return what the process has reported so far; empty for nothing."""
        with suppress(OSError):  # there is nothing new
            self._reported += os.read(self._reading, MAX_REPORT_BYTES)
        return self._reported.decode(errors="replace").strip()

    def close(self) -> None:
        """Close both ends."""
        for descriptor in (self._reading, self.descriptor):
            os.close(descriptor)


_starter: int | None = None  # the pipe to whoever started this process


def take_starter(environ: MutableMapping[str, str] = os.environ) -> None:
    """Note the pipe that this process was given, if it was; what it starts does not inherit its name."""
    global _starter  # noqa: PLW0603 - a process is started once
    named = environ.pop(VARIABLE, "")
    _starter = int(named) if named.isdecimal() else None


def has_starter() -> bool:
    """Return True if another process of MCPX has started this one, and waits for its report."""
    return _starter is not None


def report(text: str) -> None:
    """Report `STARTED`, or why this process ends."""
    if _starter is not None:
        with suppress(OSError):  # the starter is gone
            os.write(_starter, text.encode(errors="replace")[:MAX_REPORT_BYTES])

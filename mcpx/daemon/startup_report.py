"""Why a process of MCPX ended at its start, for the one that started it: a log may be full, or elsewhere.

The starter passes a pipe, whose descriptor is named by an environment variable; the command line writes the
error that ends it there as well (`mcpx.cli.main`). Standard library only, for `mcpx attach`.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

VARIABLE: Final = "MCPX_REPORT_FD"
MAX_REPORT_BYTES: Final = 4096  # of the reason; a pipe takes that at once, whoever reads


class StartupReport:
    """The starter's end: pass `descriptor` to the process, with `environment`. `close` it in the end."""

    def __init__(self) -> None:
        self._reading, self.descriptor = os.pipe()
        os.set_blocking(self._reading, False)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the process needs, beside its own."""
        return {VARIABLE: str(self.descriptor)}

    def read(self) -> str:
        """What the process has reported; empty for nothing."""
        try:
            return os.read(self._reading, MAX_REPORT_BYTES).decode(errors="replace").strip()
        except OSError:  # nothing yet
            return ""

    def close(self) -> None:
        """Close both ends."""
        for descriptor in (self._reading, self.descriptor):
            os.close(descriptor)


def take_reporter(environ: MutableMapping[str, str] = os.environ) -> int | None:
    """The descriptor to `report` to, if this process was given one; its servers do not inherit the name."""
    named = environ.pop(VARIABLE, "")
    return int(named) if named.isdecimal() else None


def report(descriptor: int | None, reason: str) -> None:
    """Report why this process ends."""
    if descriptor is not None:
        with suppress(OSError):  # the starter is gone
            os.write(descriptor, reason.encode(errors="replace")[:MAX_REPORT_BYTES])

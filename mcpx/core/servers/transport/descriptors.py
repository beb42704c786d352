"""File descriptors: as many as the system grants, and how the frontends share them.

`raise_limit` is called once, by the composition root. Programs that still use select(2) cannot take
descriptors above 1023, so children get back the limit that MCPX was started with, where the system can set
the limit of another process (Linux, prlimit(2)).
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

MAX_DESCRIPTORS: Final = (
    65536  # enough for thousands of clients; some programs close every number up to their limit
)
MACOS_DESCRIPTORS: Final = 10240  # what macOS takes where it says "unlimited"

_limits_at_start: tuple[int, int] | None = None


def raise_limit() -> None:
    """Let this process open as many files as it may, up to `MAX_DESCRIPTORS`. Never raises."""
    global _limits_at_start  # noqa: PLW0603 - the limit is the process's, and so is what it was
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    _limits_at_start = _limits_at_start or (soft, hard)
    for wanted in (MAX_DESCRIPTORS, MACOS_DESCRIPTORS):
        target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft == resource.RLIM_INFINITY or soft >= target:
            return
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            return


def restore_for(pid: int) -> None:
    """Give a child the limit that MCPX was started with, where the system can. Never raises."""
    if _limits_at_start is not None and hasattr(resource, "prlimit"):
        with suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _limits_at_start)


def share(part: float, most: int) -> int:
    """How many connections a frontend may hold that gets this part of all descriptors; `most` at most."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(1, min(most, int(soft * part)))

"""Limits of processes: file descriptors of this one, and what a server's processes may use.

`raise_limit` is called once, by the composition root. Programs that still use select(2) cannot take
descriptors above 1023, so children get back the limit that MCPX was started with, where the system can set
the limit of another process (Linux, prlimit(2)).

Servers are limited from outside as soon as they run (setpriority(2), prlimit(2)): so nothing stands between
MCPX and the command of the entry, and what goes wrong with that is reported as ever. Processes that a server
has started by then are found and limited as well; later ones inherit the limits, and cannot raise them.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import Final, NamedTuple

import structlog

from mcpx.core.system.linux import PROC
from mcpx.core.system.processes import children

log = structlog.get_logger()
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
    """Return how many connections a frontend may hold by its part of all descriptors; `most` at most."""
    soft = descriptors().now
    return most if soft is None else max(1, min(most, int(soft * part)))


class Descriptors(NamedTuple):
    """The limits of this process on open files, now and at most; None for any number."""

    now: int | None
    most: int | None


def descriptors() -> Descriptors:
    """The limits of this process, as they are now."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    return Descriptors(None if now == infinite else now, None if most == infinite else most)


# --- of servers


def limit_processes(
    pid: int, *, address_space: int | None = None, open_files: int | None = None, nice: int | None = None
) -> None:
    """Limit a process that leads a process group, and its descendants: bytes, files and niceness of each.

    Never raises: what the system does not allow, or cannot (macOS has no prlimit), is logged.
    """
    wanted = {
        "address_space": (resource.RLIMIT_AS, address_space),
        "open_files": (resource.RLIMIT_NOFILE, open_files),
    }
    for name, (kind, most) in wanted.items():
        if most is not None:
            try:
                _set_limit(pid, kind, most)
            except (OSError, ValueError, AttributeError) as error:
                _log_failure(pid, name, error)
    if nice is not None:
        try:
            _set_niceness(pid, nice)
        except OSError as error:
            _log_failure(pid, "nice", error)


def _log_failure(pid: int, name: str, error: Exception) -> None:
    if isinstance(error, ProcessLookupError):  # it has ended
        return
    reason = "this system cannot" if isinstance(error, AttributeError) else str(error)
    log.warning("upstream.limit_not_set", limit=name, pid=pid, reason=reason)


def _set_limit(pid: int, kind: int, most: int) -> None:
    """Set a limit, soft and hard, of a process and of what it has started; none is raised."""
    _, hard = resource.prlimit(pid, kind)
    target = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.prlimit(pid, kind, (target, target))
    for child in children(pid):  # those before now: the others have inherited it
        with suppress(ProcessLookupError):
            _set_limit(child, kind, most)


def _set_niceness(pid: int, nice: int) -> None:
    """Set the niceness of a process group: of all threads, unless they have more."""
    nice = max(nice, os.getpriority(os.PRIO_PROCESS, pid))
    os.setpriority(os.PRIO_PGRP, pid, nice)
    with suppress(OSError):  # sched(7): where sessions are scheduled as groups, only that of the group counts
        (PROC / str(pid) / "autogroup").write_text(str(nice))

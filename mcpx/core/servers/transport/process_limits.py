"""What a server's process may use, and all that it starts: niceness, address space, open files.

Set from outside as soon as the process runs (setpriority(2), prlimit(2)): so nothing stands between MCPX and
the command of the entry, and what goes wrong with that is reported as ever. What the process has started by
then is found and limited as well; what it starts later inherits the limits, and cannot raise them.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import structlog

from mcpx.core.config.trust import ProcessLimits
from mcpx.core.servers.transport.process_table import PROC

log = structlog.get_logger()


def limit_processes(pid: int, limits: ProcessLimits) -> None:
    """Limit a process that leads a process group, and its descendants.

    Never raises: what the system does not allow, or cannot (macOS has no prlimit), is logged.
    """
    wanted = {
        "address_space": (resource.RLIMIT_AS, limits.address_space),
        "open_files": (resource.RLIMIT_NOFILE, limits.open_files),
    }
    for name, (kind, most) in wanted.items():
        if most is not None:
            try:
                _set_limit(pid, kind, most)
            except (OSError, ValueError, AttributeError) as error:
                _log_failure(pid, name, error)
    if limits.nice is not None:
        try:
            _set_niceness(pid, limits.nice)
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
    for child in _children(pid):  # those before now: the others have inherited it
        with suppress(ProcessLookupError):
            _set_limit(child, kind, most)


def _children(pid: int) -> Iterator[int]:
    """The children of a process; none where the system does not say (proc(5), children)."""
    with suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            yield from map(int, (task / "children").read_text().split())


def _set_niceness(pid: int, nice: int) -> None:
    """Set the niceness of a process group: of all threads, unless they have more."""
    nice = max(nice, os.getpriority(os.PRIO_PROCESS, pid))
    os.setpriority(os.PRIO_PGRP, pid, nice)
    with suppress(OSError):  # sched(7): where sessions are scheduled as groups, only that of the group counts
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))

"""The number of servers that start at the same time: as configured, or as suits the processors.

A start keeps a processor busy for most of its time, so that more at once make none sooner; a few more than
there are processors use the time in which some wait for files or the network.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from mcpx.core.config.model import Settings

PER_PROCESSOR: Final = 4
MIN_STARTING: Final = 4
MAX_STARTING: Final = 32
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")  # Linux, in a container: "150000 100000" are one and a half


def starting_limit(settings: Settings) -> int:
    """Return how many servers may start at the same time."""
    if settings.max_starting:
        return settings.max_starting
    return min(max(MIN_STARTING, int(PER_PROCESSOR * processors())), MAX_STARTING)


def processors() -> float:
    """Return how many processors this process may use, by its affinity and its container's quota."""
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        usable = os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text().split()
        return min(usable, int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):  # there is none ("max")
        return usable

"""The machine of a node: how much memory it has and has left, its load, its descriptors. Blocks for a moment.

In a container the container's memory counts (cgroup v2), where it is less. Where the system does not say,
there is None.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from mcpx.core.servers.transport.process_table import PROC

_CGROUPS: Final = Path("/sys/fs/cgroup")
KIB: Final = 1024


class Memory(NamedTuple):
    """Bytes that a machine has, and those that are free."""

    total: int | None
    free: int | None


class Machine(NamedTuple):
    """The machine at one moment; bytes, and the mean number of processes that wanted a processor."""

    memory: int | None
    memory_free: int | None
    load: float | None
    descriptors: int | None
    max_descriptors: int | None


def look() -> Machine:
    """The machine now."""
    memory = memory_now()
    load = descriptors = None
    with suppress(OSError):
        load = round(os.getloadavg()[0], 2)
    with suppress(OSError):
        descriptors = len(os.listdir("/dev/fd"))  # noqa: PTH208 - tens of thousands, maybe
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = None if soft == resource.RLIM_INFINITY else soft
    return Machine(memory.total, memory.free, load, descriptors, most)


def memory_now() -> Memory:
    """The memory now, without anything else; takes a tenth of a millisecond."""
    return _least(_of_machine(), _of_container())


def _least(machine: Memory, container: Memory) -> Memory:
    """The memory that can be had: of both limits the lower, and of what is left likewise."""
    totals = [each[0] for each in (machine, container) if each[0] is not None]
    free = [each[1] for each in (machine, container) if each[1] is not None]
    return Memory(min(totals, default=None), min(free, default=None))


def _of_machine() -> Memory:
    found: dict[str, int] = {}
    try:
        for line in (PROC / "meminfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in {"MemTotal", "MemAvailable"}:
                found[name] = int(value.split()[0]) * KIB
    except (OSError, ValueError, IndexError):
        with suppress(OSError, ValueError):
            return Memory(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None)
    return Memory(found.get("MemTotal"), found.get("MemAvailable"))


def _of_container() -> Memory:
    """Of the cgroup of this process (cgroups(7)); None where it has no limit."""
    try:
        group = (PROC / "self/cgroup").read_text().strip().rpartition("::")[2].lstrip("/")
        folder = _CGROUPS / group if (_CGROUPS / group / "memory.max").exists() else _CGROUPS
        limit = int((folder / "memory.max").read_text())  # or the word `max`
        used = int((folder / "memory.current").read_text())
        cache = next(
            (int(line.split()[1]) for line in (folder / "memory.stat").read_text().splitlines()
             if line.startswith("inactive_file ")), 0,
        )  # fmt: skip
    except (OSError, ValueError, IndexError):
        return Memory(None, None)
    return Memory(limit, max(0, limit - used + cache))

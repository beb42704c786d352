"""The memory of servers' processes, with all that they have started."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable
from typing import Final

from mcpx.upstream.transport.process_table import PROC, group_of, has_proc, processes

_PS: Final = "/bin/ps"  # not by PATH, which the user chooses
_PS_TIMEOUT_S: Final = 5.0  # it answers in milliseconds
KIB: Final = 1024


def group_memory(groups: Iterable[int]) -> dict[int, int]:
    """Return the bytes that these process groups hold: shared pages in proportion on Linux, else whole.

    A group of which nothing can be seen is left out.
    """
    wanted = set(groups)
    if not wanted:
        return {}
    sums = Counter[int]()
    for group, size in _by_proc(wanted) if has_proc() else _by_ps():
        if group in wanted:
            sums[group] += size
    return {group: size for group, size in sums.items() if size}


def _by_proc(wanted: set[int]) -> Iterable[tuple[int, int]]:
    for pid in processes():
        if (group := group_of(pid)) in wanted and group is not None:
            yield group, _proportional(pid)


def _proportional(pid: int) -> int:
    """The PSS of a process (proc(5), smaps_rollup); 0 for one that has ended."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * KIB for line in lines if line.startswith("Pss:")), 0)


def _by_ps() -> Iterable[tuple[int, int]]:
    command = [_PS, "-A", "-o", "pgid=,rss="]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PS_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in done.stdout.splitlines():
        group, _, size = line.strip().partition(" ")
        if group.isdigit() and size.strip().isdigit():
            yield int(group), int(size) * KIB

"""What servers' processes use, with all that they have started: memory, and processor time.

`group_memory` is one look, for `mcpx doctor`. `ProcessFigures` looks again and again, in a thread, while
somebody follows it: it says what share of one core each server used since the look before. A look at the
shared pages of a process costs the kernel a millisecond, so it is had anew only where the memory has changed.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from mcpx.core.servers.transport.process_table import PROC, Usage, has_proc, processes, usage_of

_PS: Final = "/bin/ps"  # not by PATH, which the user chooses
_PS_TIMEOUT_S: Final = 5.0  # it answers in milliseconds
KIB: Final = 1024
CHANGED: Final = 0.02  # of a process's memory, from which on its shared pages are looked at again


class Use(NamedTuple):
    """What processes use: bytes of memory, and the share of one core, None at the first look.

    `used_s` is the processor time since the look before, of a process that was not there since its start.
    """

    memory: int
    cpu: float | None
    used_s: float


class _Seen(NamedTuple):
    """A process at one look: the bytes that it holds, those with a share of what is shared, and its time."""

    resident: int
    memory: int
    cpu_s: float


class ProcessFigures:
    """What process groups use, look for look. Not to be used by two threads at a time."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], _Seen] = {}  # by pid and start time
        self._at: float | None = None

    def look(self, groups: Iterable[int]) -> dict[int, Use]:
        """Look now; may take milliseconds. A group of which nothing can be seen is left out.

        What a process has used that was not there at the look before, it has used since then.
        """
        now = time.monotonic()
        seen: dict[tuple[int, str], _Seen] = {}
        memory, cpu = Counter[int](), defaultdict[int, float](float)
        for pid, process in _members(set(groups)):
            before = self._seen.get((pid, process.started))
            mine = _Seen(process.resident, _memory(pid, process.resident, before), process.cpu_s)
            seen[pid, process.started] = mine
            memory[process.group] += mine.memory
            cpu[process.group] += mine.cpu_s - (0.0 if before is None else before.cpu_s)
        elapsed = None if self._at is None else max(now - self._at, 1e-3)
        self._seen, self._at = seen, now
        return {
            group: Use(
                size, None if elapsed is None else round(max(0.0, cpu[group]) / elapsed, 4), cpu[group]
            )
            for group, size in memory.items()
            if size
        }


def group_memory(groups: Iterable[int]) -> dict[int, int]:
    """The bytes that these process groups hold: shared pages in proportion on Linux, else whole.

    A group of which nothing can be seen is left out.
    """
    return {group: use.memory for group, use in ProcessFigures().look(groups).items()}


def own_memory() -> int | None:
    """The bytes that this process holds; None where the system does not say."""
    if not has_proc() or (mine := usage_of(os.getpid())) is None:
        return None
    return mine.resident


def _memory(pid: int, resident: int, before: _Seen | None) -> int:
    """The memory of a process, looked at anew where it has changed."""
    if not has_proc():
        return resident
    if before is not None and abs(resident - before.resident) <= CHANGED * before.resident:
        return before.memory
    return _proportional(pid) or resident


def _members(groups: set[int]) -> Iterator[tuple[int, Usage]]:
    """The processes of these groups."""
    if not groups:
        return
    if not has_proc():
        yield from ((pid, process) for pid, process in _by_ps() if process.group in groups)
        return
    for pid in processes():
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) in groups and (process := usage_of(pid)) is not None:
                yield pid, process


def _proportional(pid: int) -> int:
    """The PSS of a process (proc(5), smaps_rollup); 0 for one that has ended."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * KIB for line in lines if line.startswith("Pss:")), 0)


def _by_ps() -> Iterator[tuple[int, Usage]]:
    command = [_PS, "-A", "-o", "pid=,pgid=,rss=,time="]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PS_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in done.stdout.splitlines():
        with suppress(ValueError):
            pid, group, size, used = line.split()
            yield int(pid), Usage(int(group), "", int(size) * KIB, _seconds(used))


def _seconds(used: str) -> float:
    """A time as `ps` writes it, `[days-][hours:]minutes:seconds`.

    Raises:
        ValueError: It is something else.
    """
    days, _, rest = used.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + int(days or 0) * 86400

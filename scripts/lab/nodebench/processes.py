"""What /proc says of a process and of those that it has started: memory, descriptors, threads, time.

Memory is PSS: a page that n processes share counts for one n-th in each, so that the sum over a thousand
equal processes is what they take of the machine. Linux alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """All processes that it has started and that run, and theirs."""
    found = list(_children(pid))
    for child in found:  # grows while it is read
        found.extend(_children(child))
    return found


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                yield from map(int, (task / "children").read_text().split())


def command(pid: int) -> str:
    """Its command line, with spaces between the arguments; empty if it has ended."""
    with suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def pss(pid: int) -> int:
    """Bytes; 0 if it has ended."""
    return _kilobytes(pid, "smaps_rollup", "Pss:")


def rss(pid: int) -> int:
    """Bytes; 0 if it has ended."""
    return _kilobytes(pid, "status", "VmRSS:")


def mean(values: Iterable[int]) -> float:
    """The mean of those that are not 0, else 0."""
    there = [value for value in values if value]
    return sum(there) / len(there) if there else 0.0


def descriptors(pid: int) -> int:
    """How many files it has open."""
    return len(list((PROC / str(pid) / "fd").iterdir()))


def threads(pid: int) -> int:
    """How many threads it has."""
    return len(list((PROC / str(pid) / "task").iterdir()))


def cpu_s(pid: int) -> float:
    """Processor seconds it has used, user and system."""
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _kilobytes(pid: int, file: str, name: str) -> int:
    with suppress(OSError):
        for line in (PROC / str(pid) / file).read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0

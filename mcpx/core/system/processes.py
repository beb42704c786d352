"""Processes as the system sees them: start time, group, environment, memory, processor time.

One reader for two systems: /proc (proc(5), Linux), and `ps` where there is none (macOS). A process id means
something only within one boot and one process namespace (`boot_id`, `pid_namespace`), and for as long as the
process lives; with its start time it names one process for good. Standard library only.

`group_memory` is one look at what process groups use, for `mcpx doctor`. `ProcessFigures` looks again and
again, in a thread, while somebody follows it: it gives the share of one core that each server used since the
look before. Looking at the shared pages of a process costs the kernel a millisecond, so it is done anew only
where the memory has changed.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
_PS: Final = "/bin/ps"  # not by PATH, which the user chooses
_PS_TIMEOUT_S: Final = 5.0  # it answers in milliseconds
_DEAD: Final = frozenset({"Z", "X"})  # proc(5): a zombie, and dead
_RUNNING: Final = frozenset({"R", "D"})  # proc(5): running, and waiting for a disk
KIB: Final = 1024
CHANGED: Final = 0.02  # of a process's memory, from which on its shared pages are looked at again
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")  # Linux, in a container: "150000 100000" are one and a half


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


class _Stat(NamedTuple):
    """Fields of /proc/PID/stat."""

    state: str
    parent: int
    group: int
    started: str
    used: tuple[str, str]
    """Processor time, of its own and of the system for it, in ticks."""
    pages: str
    """Of memory that it holds."""


class Usage(NamedTuple):
    """Memory of a process, in bytes, and processor time since its start."""

    group: int
    started: str
    resident: int
    cpu_s: float


def boot_id() -> str:
    """The id of this boot; empty if the system has none."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def pid_namespace() -> str | None:
    """The kernel's name of this process namespace; empty where there is only one (macOS).

    None if it cannot be known, as under a /proc that belongs to another namespace.
    """
    if not has_proc():
        return ""
    try:
        if str((PROC / "self").readlink()) != str(os.getpid()):
            return None
        return str((PROC / "self/ns/pid").readlink())
    except OSError:
        return None


def has_proc() -> bool:
    """True if there is a /proc (Linux)."""
    return (PROC / "self").exists()


def start_time(pid: int) -> str | None:
    """When a process started, as the system gives it; None if it does not exist, or is dead."""
    if not has_proc():
        return ask_ps("-o", "lstart=", "-p", str(pid)) or None
    found = _stat(pid)
    return None if found is None or found.state in _DEAD else found.started


def group_of(pid: int) -> int | None:
    """The process group of a process; None if it does not exist, or is dead. Needs /proc."""
    found = _stat(pid)
    return None if found is None or found.state in _DEAD else found.group


def resting(pid: int) -> tuple[str, str] | None:
    """The processor time of a process that waits for something or has ended; None for one that runs.

    One for which that is the same at two looks has not run in between. Needs /proc.
    """
    found = _stat(pid)
    if found is None:
        return ("", "")
    return None if found.state in _RUNNING else found.used


def usage_of(pid: int) -> Usage | None:
    """Use of one process; None if it does not exist, or is dead. Needs /proc."""
    found = _stat(pid)
    if found is None or found.state in _DEAD:
        return None
    cpu_s = sum(map(int, found.used)) / os.sysconf("SC_CLK_TCK")
    return Usage(found.group, found.started, int(found.pages) * os.sysconf("SC_PAGESIZE"), cpu_s)


def processes() -> Iterator[int]:
    """The ids of all visible processes. Needs /proc."""
    for entry in os.scandir(PROC):
        if entry.name.isdigit():
            yield int(entry.name)


def children(pid: int) -> Iterator[int]:
    """The children of a process; none where the system does not say (proc(5), children)."""
    with suppress(OSError), os.scandir(f"{PROC}/{pid}/task") as tasks:
        for task in tasks:
            with open(f"{task.path}/children", "rb", buffering=0) as file:
                yield from map(int, file.read().split())


def descendants(pid: int, started: str) -> dict[int, str]:
    """The descendants of a process with that start time, each with its own: together they name one for good.

    Those whose parents have died are not among them. Needs /proc.
    """
    found: dict[int, str] = {}
    waiting = [(pid, started)]
    while waiting:
        parent, its_start = waiting.pop()
        seen = {child: stat for child in children(parent) if (stat := _stat(child)) is not None}
        if start_time(parent) == its_start:  # else these are the children of another process of that number
            mine = {child: stat.started for child, stat in seen.items() if stat.parent == parent}
            waiting += mine.items()
            found |= mine
    return found


def _stat(pid: int) -> _Stat | None:
    try:
        text = (PROC / str(pid) / "stat").read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    # proc(5): the fields 3, 4, 5, 22, 14, 15 and 24
    return _Stat(fields[0], int(fields[1]), int(fields[2]), fields[19], (fields[11], fields[12]), fields[21])


# --- what process groups use


class Use(NamedTuple):
    """Use of processes: bytes of memory, and the share of one core, None at the first look.

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
    """Use of process groups, look for look. Not to be used by two threads at a time."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], _Seen] = {}  # by pid and start time
        self._at: float | None = None
        self._own: tuple[float, float] | None = None  # when, and the seconds used by this process until then

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

    def look_at_self(self) -> tuple[int | None, float | None]:
        """Return the bytes that this process holds, and its share of a core since the last such look.

        None stands for what is not known.
        """
        mine = usage_of(os.getpid()) if has_proc() else None
        now, used = time.monotonic(), time.process_time()
        before, self._own = self._own, (now, used)
        share = None if before is None else round((used - before[1]) / max(now - before[0], 1e-3), 4)
        return None if mine is None else mine.resident, share


def group_memory(groups: Iterable[int]) -> dict[int, int]:
    """The bytes that these process groups hold: shared pages in proportion on Linux, else whole.

    A group of which nothing can be seen is left out.
    """
    return {group: use.memory for group, use in ProcessFigures().look(groups).items()}


def tree_memory(pid: int, enough: int = 0) -> int:
    """The bytes that a process holds with all that it has started, shared pages in proportion on Linux.

    Shared pages are looked at only if the whole is more than `enough` with them. Without /proc it is the
    memory of the process group. 0 if the process has ended.
    """
    if not has_proc():
        return group_memory([pid]).get(pid, 0)
    started = start_time(pid)
    if started is None:
        return 0
    tree = {each: used.resident for each in (pid, *descendants(pid, started)) if (used := usage_of(each))}
    whole = sum(tree.values())
    if whole <= enough:
        return whole
    return sum(_proportional(each) or resident for each, resident in tree.items())


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


# --- without /proc


def _by_ps() -> Iterator[tuple[int, Usage]]:
    """Yield the use of all processes; nothing if `ps` does not answer."""
    for line in ask_ps("-A", "-o", "pid=,pgid=,rss=,time=").splitlines():
        with suppress(ValueError):
            pid, group, size, used = line.split()
            yield int(pid), Usage(int(group), "", int(size) * KIB, _seconds(used))


def ask_ps(*arguments: str) -> str:
    """The output of `ps`; empty if it gives none."""
    command = [_PS, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PS_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


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

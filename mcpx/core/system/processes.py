"""Processes as the system sees them: start time, group, environment, memory, processor time.

Two readers of one table: /proc (proc(5), Linux), and `ps` where there is none (macOS), which takes a
hundredth of a second for all at once, and does not know what memory is shared. A process id means something
only within one boot and one process namespace (`boot_id`, `pid_namespace`), and for as long as the process
lives; with its start time it names one process for good. Standard library only.

`group_memory` is one look at what process groups use, for `mcpx doctor`. `ProcessFigures` looks again and
again, in a thread, while somebody follows it: it gives the share of one core that each server used since the
look before. Looking at the shared pages of a process costs the kernel a millisecond, so it is done anew only
where the memory has changed.

`processors` and `memory_now` are of the machine. In a container its limits count (cgroup v2), where they are
less. What the system does not say is None.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from mcpx.core.system import ps
from mcpx.core.system.linux import CGROUPS, LINUX, PROC, has_proc

_DEAD: Final = frozenset({"Z", "X"})  # proc(5): a zombie, and dead
_RUNNING: Final = frozenset({"R", "D"})  # proc(5): running, and waiting for a disk
KIB: Final = 1024
WORK_SHARE: Final = 0.02  # of a processor: a loop that waits for something uses less
TICK_S: Final = 0.01  # processor time is counted in such steps
GROWTH_BYTES: Final = 1 << 20
MOVED_BYTES: Final = 1 << 16
CHANGED: Final = 0.02  # of a process's memory, from which on its shared pages are looked at again


class _Stat(NamedTuple):
    """Fields of /proc/PID/stat."""

    state: str
    parent: int
    group: int
    started: str
    used: tuple[str, str]
    """Processor time, of its own and of the system for it, in ticks."""
    waited: tuple[str, str]
    """Likewise, of its children that have ended."""
    pages: str
    """Of memory that it holds."""


class Usage(NamedTuple):
    """Memory of a process, in bytes, and processor time since its start; beside it that of ended children."""

    group: int
    started: str
    resident: int
    cpu_s: float
    waited_s: float = 0.0


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


def start_time(pid: int) -> str | None:
    """When a process started, as the system gives it; None if it does not exist, or is dead."""
    return start_times([pid]).get(pid)


def start_times(pids: Collection[int]) -> dict[int, str]:
    """Return when each of these processes started, without those that do not exist, or are dead."""
    if not has_proc():
        return ps.started(pids)
    stats = ((pid, _stat(pid)) for pid in pids)
    return {pid: stat.started for pid, stat in stats if stat is not None and stat.state not in _DEAD}


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


def _usage_of(pid: int) -> Usage | None:
    """Use of one process; None if it does not exist, or is dead. Needs /proc."""
    found = _stat(pid)
    if found is None or found.state in _DEAD:
        return None
    cpu_s, waited_s = (
        sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") for ticks in (found.used, found.waited)
    )
    return Usage(found.group, found.started, int(found.pages) * os.sysconf("SC_PAGESIZE"), cpu_s, waited_s)


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

    Those whose parents have died are not among them.
    """
    if not has_proc():
        return {each: row.started for each, row in _rows_below(pid, started).items() if each != pid}
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


def _rows_below(pid: int, started: str | None) -> dict[int, ps.Row]:
    """A process and its descendants, without /proc; empty if it has ended, or started at another time."""
    table, by_parent = ps.table(), defaultdict[int, list[int]](list)
    for each, row in table.items():
        by_parent[row.parent].append(each)
    if pid not in table or started not in {None, table[pid].started}:
        return {}
    found, waiting = dict[int, ps.Row](), [pid]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found[each] = table[each]
            waiting += by_parent[each]
    return found


def usages(pid: int) -> dict[int, Usage]:
    """Use of a process, and of its descendants; empty if it has ended."""
    if not has_proc():
        return {each: _usage(row) for each, row in _rows_below(pid, None).items()}
    started = start_time(pid)
    tree = () if started is None else (pid, *descendants(pid, started))
    return {each: used for each in tree if (used := _usage_of(each)) is not None}


def command_lines() -> Iterator[tuple[int, list[str]]]:
    """The processes of this user with the words of their command lines; `ps` tells them apart by blanks."""
    if not has_proc():
        yield from ps.commands("-U", str(os.getuid())).items()
        return
    for pid in processes():
        with suppress(OSError):
            entry = PROC / str(pid)
            if entry.stat().st_uid == os.getuid():
                yield pid, command_of(pid)


def command_of(pid: int) -> list[str]:
    """The words of a command line; empty if nothing is known of it. Needs /proc."""
    try:
        return os.fsdecode((PROC / str(pid) / "cmdline").read_bytes()).split("\0")
    except OSError:
        return []


def commands_of(pids: Collection[int]) -> dict[int, list[str]]:
    """The words of the command lines of these processes."""
    if has_proc():
        return {pid: command_of(pid) for pid in pids}
    return ps.commands("-p", ",".join(map(str, sorted(pids)))) if pids else {}


def _usage(row: ps.Row) -> Usage:
    return Usage(row.group, row.started, row.resident, row.cpu_s)


def _stat(pid: int) -> _Stat | None:
    try:
        text = (PROC / str(pid) / "stat").read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    # proc(5): the fields 3, 4, 5, 22, 14 to 17, and 24
    used, waited = (fields[11], fields[12]), (fields[13], fields[14])
    return _Stat(fields[0], int(fields[1]), int(fields[2]), fields[19], used, waited, fields[21])


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
        mine = _usage_of(os.getpid()) if has_proc() else _by_ps("-p", str(os.getpid())).get(os.getpid())
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

    Shared pages are looked at only if the whole is more than `enough` with them. 0 if the process has ended.
    """
    tree = {each: used.resident for each, used in usages(pid).items()}
    whole = sum(tree.values())
    if whole <= enough or not has_proc():
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
        yield from ((pid, process) for pid, process in _by_ps("-A").items() if process.group in groups)
        return
    for pid in processes():
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) in groups and (process := _usage_of(pid)) is not None:
                yield pid, process


def _proportional(pid: int) -> int:
    """The PSS of a process (proc(5), smaps_rollup); 0 for one that has ended."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * KIB for line in lines if line.startswith("Pss:")), 0)


# --- whether a process works


class WorkWatch:
    """Watches a process and its descendants for signs of work, from one look to the next.

    Without /proc it does not know what they read and write. Not to be used by two threads at a time.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = (0.0, 0)  # seconds of processor time, and bytes moved
        self._most = 0  # resident bytes
        self._at = time.monotonic()

    def look(self) -> bool:
        """Return True if they have used processor time, read, written or grown since the look before."""
        found = usages(self._pid)
        used_s = sum(usage.cpu_s + usage.waited_s for usage in found.values())
        moved, resident = sum(map(_moved, found)), sum(usage.resident for usage in found.values())
        (used_before, moved_before), self._before = self._before, (used_s, moved)
        has_grown, self._most = resident > self._most + GROWTH_BYTES, max(self._most, resident)
        elapsed_s, self._at = time.monotonic() - self._at, time.monotonic()
        has_worked = used_s - used_before >= max(WORK_SHARE * elapsed_s, TICK_S)
        return has_grown or has_worked or moved - moved_before >= MOVED_BYTES


def _moved(pid: int) -> int:
    """The bytes that a process and its ended children have moved (proc(5), io); 0 if we may not look."""
    try:
        lines = (PROC / str(pid) / "io").read_bytes().split(b"\n")
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines[:2])


def _by_ps(*which: str) -> dict[int, Usage]:
    return {pid: _usage(row) for pid, row in ps.table(*which).items()}


# --- the machine, or the container, that this process runs in


class Memory(NamedTuple):
    """Bytes that a machine has, and those that are free."""

    total: int | None
    free: int | None


def processors() -> float:
    """Return how many processors this process may use, by its affinity and its container's quota."""
    usable = len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1
    try:
        quota, period = (CGROUPS / "cpu.max").read_text().split()  # "150000 100000" are one and a half
        return min(usable, int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):  # there is none ("max")
        return usable


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
        folder = CGROUPS / group if (CGROUPS / group / "memory.max").exists() else CGROUPS
        limit = int((folder / "memory.max").read_text())  # or the word `max`
        used = int((folder / "memory.current").read_text())
        cache = next(
            (int(line.split()[1]) for line in (folder / "memory.stat").read_text().splitlines()
             if line.startswith("inactive_file ")), 0,
        )  # fmt: skip
    except (OSError, ValueError, IndexError):
        return Memory(None, None)
    return Memory(limit, max(0, limit - used + cache))

"""What the system says of processes: start time, process group, environment.

A process id means something only within one boot and one process namespace (`boot_id`, `pid_namespace`), and
for as long as the process lives; with its start time it names one process for good. Standard library only.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
_PS: Final = "/bin/ps"  # not by PATH, which the user chooses
_PS_TIMEOUT_S: Final = 5.0  # it answers in milliseconds
_DEAD: Final = frozenset({"Z", "X"})  # proc(5): a zombie, and dead
_RUNNING: Final = frozenset({"R", "D"})  # proc(5): running, and waiting for a disk


class _Stat(NamedTuple):
    """Fields of /proc/PID/stat."""

    state: str
    group: int
    started: str
    used: tuple[str, str]
    """Processor time, of its own and of the system for it, in ticks."""
    pages: str
    """Of memory that it holds."""


class Usage(NamedTuple):
    """What a process holds of memory, in bytes, and has used of the processor since it started."""

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
    """Whether there is a /proc (Linux)."""
    return (PROC / "self").exists()


def start_time(pid: int) -> str | None:
    """When a process started, as the system gives it; None if it does not exist, or is dead."""
    if not has_proc():
        return _start_time_by_ps(pid)
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
    """What a process uses; None if it does not exist, or is dead. Needs /proc."""
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


def started_with(pid: int, variable: str, value: str) -> bool:
    """Whether the process was started with that variable (proc(5), environ); False if we may not look."""
    try:
        environ = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(f"{variable}={value}") in environ.split(b"\0")


def _stat(pid: int) -> _Stat | None:
    try:
        text = (PROC / str(pid) / "stat").read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    # proc(5): the fields 3, 5, 22, 14, 15 and 24
    return _Stat(fields[0], int(fields[2]), fields[19], (fields[11], fields[12]), fields[21])


def _start_time_by_ps(pid: int) -> str | None:
    """The start time where there is no /proc (macOS); None if `ps` gives none."""
    command = [_PS, "-o", "lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PS_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None

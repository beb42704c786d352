"""The process table by `ps`, for systems without /proc (macOS).

It is asked with a deadline, and says nothing where it fails. It shows the environment of this user's own
programs; of those that come with macOS it shows none.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from contextlib import suppress
from typing import Final, NamedTuple

PROGRAM: Final = "/bin/ps"  # not by PATH, which the user chooses
TIMEOUT_S: Final = 5.0  # it answers in milliseconds
ENVIRONMENT: Final = {"LC_ALL": "C", "TZ": "UTC0"}
"""Times are compared as text, by processes that may be in other places."""
DEAD: Final = "Z"  # a zombie, by the first letter of its state
WITH_ENVIRONMENT: Final = ("-A", "-E", "-ww") if sys.platform == "darwin" else ("axeww",)
"""Apple's `ps` and all others differ in this alone."""


class Row(NamedTuple):
    """A process: its parent and group, bytes that it holds, processor time, and when it started, as text."""

    parent: int
    group: int
    resident: int
    cpu_s: float
    started: str


def ask(*arguments: str) -> str:
    """The output of `ps`; empty if it gives none."""
    command = [PROGRAM, *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=TIMEOUT_S,
            env=ENVIRONMENT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def table(*which: str) -> dict[int, Row]:
    """The processes that live: all, or those that the options name (`-p 1,2`)."""
    found = {}
    for line in ask(*(which or ("-A",)), "-o", "pid=,ppid=,pgid=,stat=,rss=,time=,lstart=").splitlines():
        with suppress(ValueError):
            pid, parent, group, state, size, used, started = line.split(None, 6)
            if not state.startswith(DEAD):
                found[int(pid)] = Row(
                    int(parent), int(group), int(size) * 1024, seconds(used), started.strip()
                )
    return found


def started(pids: Collection[int]) -> dict[int, str]:
    """The start time of each of these processes that lives, to the second."""
    rows = table("-p", ",".join(map(str, sorted(pids)))) if pids else {}
    return {pid: row.started for pid, row in rows.items()}


def seconds(used: str) -> float:
    """A time as `ps` writes it, `[days-][hours:]minutes:seconds`.

    Raises:
        ValueError: It is something else.
    """
    days, _, rest = used.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + int(days or 0) * 86400


def with_variable(variable: str) -> dict[int, str]:
    """The value of a variable by each process of this user that was started with it, as far as `ps` shows."""
    found = {}
    for line in ask(*WITH_ENVIRONMENT, "-o", "pid=,command=").splitlines():
        pid, _, words = line.strip().partition(" ")
        values = [word.partition("=")[2] for word in words.split() if word.startswith(f"{variable}=")]
        if pid.isdigit() and values:
            found[int(pid)] = values[-1]
    return found


def commands(*which: str) -> dict[int, list[str]]:
    """The words of each command line, as far as blanks tell them apart."""
    found = {}
    for line in ask(*which, "-ww", "-o", "pid=,command=").splitlines():
        pid, _, words = line.strip().partition(" ")
        if pid.isdigit():
            found[int(pid)] = words.split()
    return found

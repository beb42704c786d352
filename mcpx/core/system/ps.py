"""`ps`, for systems without /proc (macOS): it is asked with a deadline, and says nothing where it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

PROGRAM: Final = "/bin/ps"  # not by PATH, which the user chooses
TIMEOUT_S: Final = 5.0  # it answers in milliseconds


def ask(*arguments: str) -> str:
    """The output of `ps`; empty if it gives none."""
    command = [PROGRAM, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def usages() -> Iterator[tuple[int, int, int, float]]:
    """Yield each process: its id, its group, the bytes that it holds, and its processor time in seconds."""
    for line in ask("-A", "-o", "pid=,pgid=,rss=,time=").splitlines():
        with suppress(ValueError):
            pid, group, size, used = line.split()
            yield int(pid), int(group), int(size) * 1024, seconds(used)


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
    for line in ask("-A", "-E", "-ww", "-o", "pid=,command=").splitlines():
        pid, _, words = line.strip().partition(" ")
        values = [word.partition("=")[2] for word in words.split() if word.startswith(f"{variable}=")]
        if pid.isdigit() and values:
            found[int(pid)] = values[-1]
    return found

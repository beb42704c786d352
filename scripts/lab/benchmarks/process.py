"""A process of the benchmark: started in a group of its own, seen off with it, its memory read from /proc.

Only processes made here are ever signalled. Memory is in bytes and of that one process, not of its children.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

WRITTEN_S = 10.0
LEAVE_S = 10.0  # after the end of its input; FastMCP takes its time


class Unmeasured(Exception):
    """Something could not be measured; the text says why."""


def written(file: Path) -> str:
    """The text of a file that a starting program writes: it listens before it has done all else."""
    until = time.monotonic() + WRITTEN_S
    while not (file.exists() and (text := file.read_text().strip())):
        if time.monotonic() > until:
            raise Unmeasured(f"{file.name}: not written within {WRITTEN_S:g} s")
        time.sleep(0.01)
    return text


@contextmanager
def deadline(seconds: float, what: str) -> Iterator[None]:
    """Raises Unmeasured when the block takes longer. Interrupts a blocking read; not to be nested."""

    def late(_number: int, _frame: object) -> None:
        raise Unmeasured(f"{what}: not done within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Process:
    """A running command. `stdin` and `stdout` are blocking descriptors of our ends."""

    def __init__(self, name: str, command: list[str], env: dict[str, str] | None = None) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.stdin = self._popen.stdin.fileno()
        self.stdout = self._popen.stdout.fileno()

    def log(self) -> str:
        """What it has written to standard error so far."""
        length = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), length, 0).decode(errors="replace")

    def memory(self) -> dict[str, int]:
        """`rss`, `pss` and `peak` (of the RSS, since its start or `forget_peak`)."""
        status = _fields(f"/proc/{self.pid}/status")
        rollup = _fields(f"/proc/{self.pid}/smaps_rollup")
        return {"rss": status["VmRSS"], "pss": rollup["Pss"], "peak": status["VmHWM"]}

    def has_left(self) -> bool:
        """Whether it has ended by itself."""
        return self._popen.poll() is not None

    def cpu_s(self) -> float:
        """Processor seconds it has used, user and system, in ticks of 10 ms: what noise hardly touches."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def forget_peak(self) -> None:
        """Start the peak anew from the RSS of now, where the kernel lets us."""
        with suppress(OSError):
            Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def close(self, leave_s: float = LEAVE_S) -> None:
        """Close its input and wait so many seconds; then end its group."""
        with suppress(OSError):
            self._popen.stdin.close()
        self._popen.stdout.close()
        for number, wait in ((None, leave_s), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
            if number is not None:
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(wait)
                break
        self._log.close()


def _fields(path: str) -> dict[str, int]:
    """The `Name:  123 kB` lines of a file in /proc, in bytes."""
    rows = (line.split() for line in Path(path).read_text().splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if row[-1] == "kB"}


def cpu_of_tree(roots: Iterable[int]) -> float:
    """Processor seconds of these processes and all their descendants, in ticks of 10 ms."""
    ticks, waiting = 0, list(roots)
    while waiting:
        with suppress(OSError):
            process = Path(f"/proc/{waiting.pop()}")
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
            for task in (process / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return ticks / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

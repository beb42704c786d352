"""What a fault may leave behind, read from /proc: processes, zombies, file descriptors, memory.

Every process of a stage carries a mark in its environment, which its descendants inherit: so they are found
wherever they went, even into a group of their own. Linux only, as /proc is.
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from pathlib import Path

import anyio

MARK = "MCPX_FAULT_MARK"
LEAVE_S = 5.0  # for the kernel and the parent to see a killed process off
LOOK_S = 0.01


def marked(mark: str) -> list[int]:
    """The living processes that carry the mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0") and _stat(folder)[0] not in "ZX":
                found.append(int(folder.name))
    return found


def children(parent: int) -> list[int]:
    """The child processes of a process, dead ones that it has not collected included."""
    return [pid for pid, _state in _children(parent)]


def zombies(parent: int) -> list[int]:
    """The dead children of a process that it has not collected."""
    return [pid for pid, state in _children(parent) if state == "Z"]


def _children(parent: int) -> list[tuple[int, str]]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, of, *_ = _stat(folder)
            if int(of) == parent:
                found.append((int(folder.name), state))
    return found


def _stat(folder: Path) -> list[str]:
    """The fields of proc(5) from the third on: state, parent, ..."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


async def frozen(pid: int) -> None:
    """Wait until a signal that stops the process has reached it: in a read, it may still take what comes."""
    with anyio.fail_after(LEAVE_S):
        while _stat(Path(f"/proc/{pid}"))[0] != "T":  # noqa: ASYNC110 - as below
            await anyio.sleep(LOOK_S)


async def gone(pid: int) -> None:
    """Wait until a process that is not ours has ended; who collects it, and when, is another matter."""
    with anyio.fail_after(10 * LEAVE_S):
        while _state(pid) not in {"", "Z", "X"}:  # noqa: ASYNC110 - as below
            await anyio.sleep(LOOK_S)


def _state(pid: int) -> str:
    try:
        return _stat(Path(f"/proc/{pid}"))[0]
    except OSError:
        return ""


async def left_over(mark: str, parent: int | None = None) -> list[int]:
    """The marked processes, and the zombies of a parent, that are still there after a bounded wait."""
    with anyio.move_on_after(LEAVE_S):
        while left := marked(mark) + ([] if parent is None else zombies(parent)):  # noqa: ASYNC110 - nothing tells when a process that is not ours is gone
            await anyio.sleep(LOOK_S)
    return left


def descriptors(pid: int | None = None) -> int:
    """How many file descriptors a process has open: this one, after its garbage was collected, or another."""
    if pid is None:
        gc.collect()
    return sum(1 for _ in Path(f"/proc/{pid or os.getpid()}/fd").iterdir())


def memory(pid: int | None = None, field: str = "VmRSS") -> int:
    """Resident bytes of a process; with `VmHWM` the most since `forget_peak`."""
    for line in Path(f"/proc/{pid or os.getpid()}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def forget_peak(pid: int | None = None) -> None:
    """Start `VmHWM` of a process anew."""
    with suppress(OSError):
        Path(f"/proc/{pid or os.getpid()}/clear_refs").write_text("5")


def cpu_s(pid: int | None = None) -> float:
    """Processor seconds that a process has used, in ticks of 10 ms."""
    fields = _stat(Path(f"/proc/{pid or os.getpid()}"))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def slope(values: list[float]) -> float:
    """How much the values grow from one to the next: least squares."""
    middle = (len(values) - 1) / 2
    spread = sum((at - middle) ** 2 for at in range(len(values)))
    return sum((at - middle) * value for at, value in enumerate(values)) / spread if spread else 0.0

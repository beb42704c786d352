"""A machine that is lost, as far as one machine can show it: a node of Ray with all that runs under it.

`freeze` stops every process of it, so that none can say anything any more, but their connections stay open:
what a machine that has lost its power, or its network, looks like from outside. `kill` freezes and then ends
them at once: no process of the node sees another end.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from mcpx.core.system.locks import locked

TURN_TIMEOUT_S = 1800.0  # a whole run of the tests, and another one


def processes_under(pid: int) -> list[int]:
    """A process and all its descendants that run, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (found := _parent(entry)) is not None:
            children.setdefault(found, []).append(int(entry.name))
    found_all = [pid]
    for each in found_all:
        found_all += children.get(each, [])
    return found_all


def freeze(pid: int) -> list[int]:
    """Stop a raylet and all under it; their ids. None, if it has ended: its id may be another's by now."""
    frozen: list[int] = []
    if not _is_raylet(pid):
        return frozen
    while new := [each for each in processes_under(pid) if each not in frozen]:
        for each in new:
            _signal(each, signal.SIGSTOP)
        frozen += new
    return frozen


def thaw(pids: list[int]) -> None:
    """Let them go on, children first."""
    for each in reversed(pids):
        _signal(each, signal.SIGCONT)


def kill(pid: int) -> tuple[float, list[int]]:
    """End a raylet and all under it; when that was, and which they were."""
    frozen = freeze(pid)
    at = time.time()
    for each in frozen:
        _signal(each, signal.SIGKILL)
    return at, frozen


def _is_raylet(pid: int) -> bool:
    try:
        return b"raylet" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _parent(process: Path) -> int | None:
    """The parent of a process that runs; None for one that has ended."""
    try:
        state, parent, *_ = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if state == "Z" else int(parent)


_turn: list[AbstractContextManager[None]] = []


def take_turn() -> None:
    """Keep other clusters of Ray off this machine until this process ends: two starve each other.

    Waits for those of other workers and of other runs of the tests. Does nothing the second time.
    """
    if _turn:
        return
    path = Path(tempfile.gettempdir(), f"mcpx-tests-ray-{os.getuid()}.lock")
    lock = locked(path, timeout_s=TURN_TIMEOUT_S)
    lock.__enter__()  # until this process ends
    _turn.append(lock)

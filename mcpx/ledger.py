"""The ledger of children: so that nothing outlives a MCPX that was killed.

Each MCPX process keeps one small file in the state folder with the process group of every child it runs.
`sweep`, at the next start of any MCPX, reads the files whose writer is gone, ends the groups that are left,
and deletes the files. It ends only what is provably ours: the leader's start time must match; where the
leader is gone but its group is not, the kernel cannot have given the number to anybody else meanwhile.

A ledger that cannot be written is logged once and does without: it must not keep servers from running.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
import structlog

from mcpx.state import ensure_folder, state_folder

log = structlog.get_logger()
TERM_GRACE_S: Final = 0.5  # for orphans: their client is gone for good
POLL_S: Final = 0.02
_NUMBERS: Final = count(1)  # one process may have several, in a program that opens several hubs


class Entry(msgspec.Struct, frozen=True):
    """A process: its id, which is also its group's, and when it started (the system's own words)."""

    pid: int
    started: str


class _File(msgspec.Struct):
    boot: str
    owner: Entry
    children: dict[str, Entry] = {}


class Ledger:
    """The file of this process, in `children` under the state folder (or another one)."""

    def __init__(self, state: Path | None = None) -> None:
        self._folder = (state or state_folder()) / "children"
        pid = os.getpid()
        self._path = self._folder / f"{pid}-{next(_NUMBERS)}.json"
        self._file = _File(boot_id(), Entry(pid, start_time(pid) or ""))
        self._broken = False

    def add(self, name: str, pid: int) -> None:
        """Note a child that has just been started."""
        self._file.children[name] = Entry(pid, start_time(pid) or "")
        self._write()

    def remove(self, name: str) -> None:
        """Forget a child that has been seen off."""
        if self._file.children.pop(name, None) is not None:
            self._write()

    def _write(self) -> None:
        if self._broken:
            return
        try:
            if not self._file.children:
                self._path.unlink(missing_ok=True)
                return
            ensure_folder(self._folder)
            new = self._path.with_suffix(".new")
            new.write_bytes(msgspec.json.encode(self._file))
            new.replace(self._path)
        except OSError as error:
            self._broken = True
            log.warning("ledger.unwritable", path=str(self._path), reason=error.strerror)

    def sweep(self) -> list[int]:
        """End what earlier MCPX processes left behind; the process groups that were ended."""
        ended: list[int] = []
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []:
            try:
                file = msgspec.json.decode(path.read_bytes(), type=_File)
            except (OSError, msgspec.DecodeError):
                continue
            if file.boot != boot_id():
                path.unlink(missing_ok=True)
            elif start_time(file.owner.pid) != file.owner.started:
                ended += _end(file.children)
                path.unlink(missing_ok=True)
        return ended


def _end(children: dict[str, Entry]) -> list[int]:
    """TERM, a short wait, KILL, for those that are still what they were."""
    ours = [child.pid for child in children.values() if _is_ours(child)]
    for pid in ours:
        _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + TERM_GRACE_S
    while any(_group_lives(pid) for pid in ours) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for pid in ours:
        _signal(pid, signal.SIGKILL)
    return ours


def _is_ours(child: Entry) -> bool:
    now = start_time(child.pid)
    return now == child.started if now is not None else _group_lives(child.pid)


def _group_lives(pid: int) -> bool:
    return _signal(pid, 0)


def _signal(pid: int, number: int) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
        return True
    return False


def boot_id() -> str:
    """Which boot this is, where the system tells: process ids mean nothing in another one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def start_time(pid: int) -> str | None:
    """When a process started, in the system's own words; None if there is none of that id, or a dead one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return _start_time_by_ps(pid) if not Path("/proc/self").exists() else None
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    state, started = fields[0], fields[19]  # proc(5): the third field and the 22nd
    return None if state in {"Z", "X"} else started


def _start_time_by_ps(pid: int) -> str | None:
    """Where there is no /proc (macOS)."""
    done = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None

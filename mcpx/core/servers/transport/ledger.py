"""The ledger of child processes, so that none outlives a MCPX that was killed.

Each MCPX process keeps one small file in the folder `children` of the state folder, with the process group,
the start time and the mark of every child it runs. A change is a new file of another name, because renaming
a file over another takes ext4 milliseconds. `sweep`, at the next start of any MCPX, reads the files whose
writer is gone, ends what is left of their children, and deletes the files. In case there is no client that
starts the next one, each process with children leaves a shell that waits for its end, and sweeps if there is
a file then. A file is trusted only if no other user could have written it or its folder, and if its
process ids mean something: same boot, same process namespace. Files of another namespace or machine (a shared
home folder) are left alone until they are old.

A process is ended only if it is proven to be ours: it carries the random mark that its server was started
with, in whatever session it is, or descends from one that does (`mcpx.core.system.marked`). An orphan that
has discarded its environment, or that we may not inspect, is left. Without /proc (macOS) it is also proof
that the leader of a group started when the ledger says.

A ledger that cannot be written is logged once and then skipped: it must not keep servers from running.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum, auto
from itertools import count
from pathlib import Path
from socket import gethostname
from typing import Final

import msgspec
import structlog

from mcpx.core.servers.transport.containers import Container, stop_all
from mcpx.core.store.folders import distrust_folder, ensure_folder
from mcpx.core.store.private_files import open_own_file, replace_file
from mcpx.core.system.environment import CHILD_MARK, python_running
from mcpx.core.system.linux import has_proc
from mcpx.core.system.marked import POLL_S, Family, look
from mcpx.core.system.processes import boot_id, group_of, pid_namespace, processes, start_time
from mcpx.core.system.reaping import kill_group
from mcpx.paths import state_folder

log = structlog.get_logger()

TERM_TIMEOUT_S: Final = 0.5  # their client is gone for good
MAX_PID: Final = 2**31 - 1
MAX_FILE_BYTES: Final = 4_000_000  # ten thousand children
MAX_FOREIGN_AGE_S: Final = 30 * 86400.0  # of a file of another machine or namespace; then it is deleted
_NUMBERS: Final = count(1)  # of the files of this process
_GUARD: Final = """exec 3<&0
(read -r _ <&3; for file in "$0"-*.json; do [ -e "$file" ] && exec "$@"; done) </dev/null >/dev/null 2>&1 &"""
_SWEEP: Final = (
    "from pathlib import Path; from mcpx.core.servers.transport.ledger import Ledger;"
    " Ledger(Path(sys.argv[2])).sweep()"
)


class Entry(msgspec.Struct, frozen=True):
    """A process: its id (for a server, also its group's), its start time as the system gives it, its mark.

    `container` is what it is the client of, if it is that of an engine.
    """

    pid: int
    started: str
    mark: str = ""
    container: Container | None = None


class Ended(msgspec.Struct, frozen=True):
    """The process groups that were ended, and those that live but are not proven to be ours."""

    groups: list[int]
    left: list[int]


def end_orphans(servers: Iterable[Entry]) -> Ended:
    """Send SIGTERM to the processes of those servers, wait shortly, send SIGKILL. Never to our own group."""
    noted = {one.pid: one for one in servers if 1 < one.pid <= MAX_PID and one.pid != os.getpgrp()}
    if not noted:
        return Ended([], [])
    return _by_mark(noted) if has_proc() else _by_leader(noted)


# --- with /proc


def _by_mark(noted: dict[int, Entry]) -> Ended:
    family, marks = Family((server.mark for server in noted.values()), leaders=noted.keys()), look()
    found = {marks[pid] for pid in family.living(marks) & marks.keys()}
    signalled = family.end(TERM_TIMEOUT_S)
    groups = [server.pid for server in noted.values() if server.mark in found]
    return Ended(sorted(groups), sorted(_left(noted, signalled)))


def _left(noted: dict[int, Entry], signalled: set[int]) -> set[int]:
    """The groups with a process that no signal was sent to, unless their id has been reused."""
    groups = {group for pid in processes() if pid not in signalled and (group := group_of(pid)) in noted}
    return {group for group in groups if start_time(group) in {None, noted[group].started}}


# --- without /proc


def _by_leader(noted: dict[int, Entry]) -> Ended:
    family = Family(server.mark for server in noted.values())
    groups = [pid for pid, server in noted.items() if _leads(server)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in groups:
            if _leads(noted[pid]):
                kill_group(pid, number)
        if number is signal.SIGTERM and groups:
            _wait(lambda: not any(_leads(noted[pid]) for pid in groups))
    family.end(TERM_TIMEOUT_S)
    return Ended(groups, [])


def _leads(server: Entry) -> bool:
    return bool(server.started) and start_time(server.pid) == server.started


def _wait(over: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TERM_TIMEOUT_S
    while not over() and time.monotonic() < deadline:
        time.sleep(POLL_S)


__all__ = ["Entry", "Ledger", "boot_id", "start_time"]


class _File(msgspec.Struct):
    boot: str
    owner: Entry
    children: dict[str, Entry] = {}
    namespace: str | None = None
    host: str = ""


class Ledger:
    """The file of this process. `state` is the state folder, if it is not the usual one."""

    def __init__(self, state: Path | None = None) -> None:
        self._folder = (state or state_folder()) / "children"
        pid = os.getpid()
        self._path: Path | None = None
        owner = Entry(pid, start_time(pid) or "")
        self._file = _File(boot_id(), owner, namespace=pid_namespace(), host=gethostname())
        self._broken = False
        self._guard: int | None = None  # our end of a pipe, which is closed when this process ends

    def add(self, name: str, pid: int, mark: str, container: Container | None = None) -> None:
        """Add a child that has just been started with that mark in its environment."""
        self._file.children[name] = Entry(pid, start_time(pid) or "", mark, container)
        self._write()

    def remove(self, name: str) -> None:
        """Remove a child that has been terminated."""
        if self._file.children.pop(name, None) is not None:
            self._write()

    def _write(self) -> None:
        if self._broken:
            return
        try:
            if not self._file.children:
                self._replace_by(None)
                self._dismiss_guard()
                return
            ensure_folder(self._folder)
            if (problem := distrust_folder(self._folder)) is not None:
                self._give_up(problem)
                return
            path = self._folder / f"{self._file.owner.pid}-{next(_NUMBERS)}.json"
            replace_file(path, msgspec.json.encode(self._file), synced=False)
            self._replace_by(path)
            if self._guard is None:
                self._leave_guard()
        except OSError as error:
            self._give_up(error.strerror)

    def _replace_by(self, path: Path | None) -> None:
        """Delete the last file; between the two, both name our children."""
        last, self._path = self._path, path
        if last is not None:
            last.unlink(missing_ok=True)

    def _leave_guard(self) -> None:
        """Leave a shell that waits for the end of this process, and ends what is left of its children."""
        theirs, self._guard = os.pipe()
        files = str(self._folder / str(self._file.owner.pid))
        arguments = [files, *python_running(_SWEEP, str(self._folder.parent))]
        threading.Thread(target=_start_guard, args=(theirs, arguments)).start()  # nobody waits for it

    def _dismiss_guard(self) -> None:
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None

    def _give_up(self, reason: str | None) -> None:
        self._broken = True
        log.warning("ledger.unwritable", path=str(self._folder), reason=reason)

    def end_children(self) -> None:
        """Kill all children of this process at once, with what carries their marks. In any thread; blocks."""
        children = list(self._file.children.values())
        for child in children:
            kill_group(child.pid)
        if children:
            Family(child.mark for child in children).end(0.0)

    # --- sweeping up

    def sweep(self) -> list[int]:
        """End what earlier MCPX processes left behind; return the process groups that were ended."""
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return []
        except OSError as error:
            self._reject(self._folder, error.strerror)
            return []
        try:
            if (problem := distrust_folder(self._folder, os.fstat(folder))) is not None:
                self._reject(self._folder, problem)
                return []
            names = os.listdir(folder)  # noqa: PTH208 - of this very folder, whatever its path leads to
            ours = sorted(name for name in names if name.endswith(".json"))
            return [group for name in ours for group in self._sweep_one(folder, name)]
        except OSError as error:
            self._reject(self._folder, error.strerror)
            return []
        finally:
            os.close(folder)

    @staticmethod
    def _reject(path: Path, reason: str | None) -> None:
        log.warning("ledger.not_believed", path=str(path), reason=reason)

    def _sweep_one(self, folder: int, name: str) -> list[int]:
        """End the children in one file, if its MCPX is gone, and delete it."""
        try:
            found, written = _read(folder, name)
            standing = _judge(found)
            if standing is _Standing.ELSEWHERE and time.time() - written > MAX_FOREIGN_AGE_S:
                standing = _Standing.PAST
            if standing in {_Standing.RUNS, _Standing.ELSEWHERE}:
                return []
            left = list(found.children.values()) if standing is _Standing.LEFT else []
            stop_all([child.container for child in left if child.container])
            ended = end_orphans(left)
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:  # another MCPX has done it
            return []
        except (OSError, ValueError, RecursionError) as error:
            self._reject(self._folder / name, str(error))
            return []
        if ended.left:
            reason = f"they live, but do not all carry {CHILD_MARK}: not proven to be ours"
            log.warning("orphans.left", process_groups=ended.left, reason=reason)
        return ended.groups


def _start_guard(end: int, arguments: list[str]) -> None:
    with suppress(OSError), open(end, "rb") as pipe:
        command = ["/bin/sh", "-c", _GUARD, *arguments]
        subprocess.run(command, stdin=pipe, cwd="/", start_new_session=True, check=False)


class _Standing(Enum):
    """The state of the MCPX that wrote a file."""

    RUNS = auto()
    LEFT = auto()
    """It is gone; its children may be left."""
    PAST = auto()
    """It ran in another boot of this machine: nothing is left."""
    ELSEWHERE = auto()
    """It ran on another machine or in another process namespace: its process ids mean nothing here."""


def _judge(file: _File) -> _Standing:
    if file.boot != boot_id():
        return _Standing.PAST if file.host in {"", gethostname()} else _Standing.ELSEWHERE
    here = pid_namespace()
    if here is None or file.namespace != here:
        return _Standing.ELSEWHERE
    started = start_time(file.owner.pid)
    # if the owner could not read its start time, any process with its id may be the owner
    runs = started is not None and file.owner.started in {"", started}
    return _Standing.RUNS if runs else _Standing.LEFT


def _read(folder: int, name: str) -> tuple[_File, float]:
    """The contents of one file, and when it was written (seconds since the epoch).

    Raises:
        OSError: It cannot be read, or another user may have written it.
        msgspec.DecodeError: It is no ledger.
        RecursionError: It is no ledger.
    """
    with open_own_file(name, dir_fd=folder) as file:
        data = file.read(MAX_FILE_BYTES)
        return msgspec.json.decode(data, type=_File), os.fstat(file.fileno()).st_mtime

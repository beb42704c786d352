"""The ledger of child processes, so that none outlives a MCPX that was killed.

Each MCPX process keeps one small file in the folder `children` of the state folder, with the process group,
the start time and the mark of every child it runs. A change is a new file of another name, because renaming
a file over another takes ext4 milliseconds. `sweep`, at the next start of any MCPX, reads the files
whose writer is gone, ends what is left of their children (`orphans`: only what is proven to be ours), and
deletes the files. A file is trusted only if no other user could have written it or its folder, and if its
process ids mean something: same boot, same process namespace. Files of another namespace or machine (a shared
home folder) are left alone until they are old.

A ledger that cannot be written is logged once and then skipped: it must not keep servers from running.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from enum import Enum, auto
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
import structlog

from mcpx.core.servers.transport.orphans import Entry, end_orphans
from mcpx.core.servers.transport.process_table import boot_id, pid_namespace, start_time
from mcpx.core.system.environment import CHILD_MARK
from mcpx.paths import READ_FLAGS, distrust_folder, ensure_folder, state_folder

__all__ = ["Entry", "Ledger", "boot_id", "start_time"]

log = structlog.get_logger()
MAX_FILE_BYTES: Final = 4_000_000  # ten thousand children
MAX_FOREIGN_AGE_S: Final = 30 * 86400.0  # of a file of another machine or namespace; then it is deleted
_NUMBERS: Final = count(1)  # of the files of this process


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
        self._file = _File(boot_id(), owner, namespace=pid_namespace(), host=os.uname().nodename)
        self._broken = False

    def add(self, name: str, pid: int, mark: str) -> None:
        """Add a child that has just been started with that mark in its environment."""
        self._file.children[name] = Entry(pid, start_time(pid) or "", mark)
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
                return
            ensure_folder(self._folder)
            if (problem := distrust_folder(self._folder, self._folder.lstat())) is not None:
                self._give_up(problem)
                return
            path = self._folder / f"{self._file.owner.pid}-{next(_NUMBERS)}.json"
            new = path.with_suffix(".new")
            new.unlink(missing_ok=True)
            made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(made, "wb") as file:
                file.write(msgspec.json.encode(self._file))
            new.rename(path)
            self._replace_by(path)
        except OSError as error:
            self._give_up(error.strerror)

    def _replace_by(self, path: Path | None) -> None:
        """Delete the last file; between the two, both name our children."""
        last, self._path = self._path, path
        if last is not None:
            last.unlink(missing_ok=True)

    def _give_up(self, reason: str | None) -> None:
        self._broken = True
        log.warning("ledger.unwritable", path=str(self._folder), reason=reason)

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
            ended = end_orphans(found.children.values() if standing is _Standing.LEFT else ())
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:  # another MCPX has done it
            return []
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            self._reject(self._folder / name, str(error))
            return []
        if ended.left:
            reason = f"they live, but do not all carry {CHILD_MARK}: not proven to be ours"
            log.warning("orphans.left", process_groups=ended.left, reason=reason)
        return ended.groups


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
        return _Standing.PAST if file.host in {"", os.uname().nodename} else _Standing.ELSEWHERE
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
    opened = os.open(name, READ_FLAGS, dir_fd=folder)
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise PermissionError(errno.EPERM, "not a file that is yours alone")
        return msgspec.json.decode(file.read(MAX_FILE_BYTES), type=_File), found.st_mtime

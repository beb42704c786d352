"""The ledger of children: so that nothing outlives a MCPX that was killed.

Each MCPX process keeps one small file in the state folder, in `children`, with the process group, the start
and the mark of every child it runs. `sweep`, at the next start of any MCPX, reads the files whose writer is
gone, has what is left of their children ended (`mcpx.upstream.transport.orphans`: only what is proven to be
ours), and deletes the files. It believes a file only where nobody else could have written it: file and folder
are ours and nobody else may write them; and where its numbers mean something: this boot, this process
namespace. Files of another namespace or machine (a home folder that is shared) are theirs, and left alone
until they are old.

A ledger that cannot be used is logged once and does without: it must not keep servers from running.
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

from mcpx.daemon.environment import CHILD_MARK
from mcpx.paths import ensure_folder, others_may_change, state_folder
from mcpx.upstream.transport.orphans import Entry, end
from mcpx.upstream.transport.process_table import boot_id, pid_namespace, start_time

__all__ = ["Entry", "Ledger", "boot_id", "start_time"]

log = structlog.get_logger()
LARGEST: Final = 4_000_000  # bytes of a file: ten thousand children
OLD_S: Final = (
    30 * 86400.0
)  # a file of another machine or namespace that was not written for so long is waste
_READ: Final = (
    os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
)  # not held up by a pipe of that name
_NUMBERS: Final = count(1)  # one process may have several, in a program that opens several hubs


class _File(msgspec.Struct):
    boot: str
    owner: Entry
    children: dict[str, Entry] = {}
    namespace: str | None = None
    host: str = ""


class Ledger:
    """The file of this process, in `children` under the state folder (or another one)."""

    def __init__(self, state: Path | None = None) -> None:
        self._folder = (state or state_folder()) / "children"
        pid = os.getpid()
        self._path = self._folder / f"{pid}-{next(_NUMBERS)}.json"
        owner = Entry(pid, start_time(pid) or "")
        self._file = _File(boot_id(), owner, namespace=pid_namespace(), host=os.uname().nodename)
        self._broken = False

    def add(self, name: str, pid: int, mark: str) -> None:
        """Note a child that has just been started with that mark in its environment."""
        self._file.children[name] = Entry(pid, start_time(pid) or "", mark)
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
            if (problem := self._distrust(self._folder.lstat())) is not None:
                self._give_up(problem)
                return
            new = self._path.with_suffix(".new")
            new.unlink(missing_ok=True)
            made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(made, "wb") as file:
                file.write(msgspec.json.encode(self._file))
            new.replace(self._path)
        except OSError as error:
            self._give_up(error.strerror)

    def _give_up(self, reason: str | None) -> None:
        self._broken = True
        log.warning("ledger.unwritable", path=str(self._path), reason=reason)

    def _distrust(self, found: os.stat_result) -> str | None:
        """Why what lies in our folder may be somebody else's; None where it is ours alone."""
        if others_may_change(self._folder.parent.stat()):
            return f"{self._folder.parent}: others may change it"
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return f"{self._folder}: not a folder of yours"
        if found.st_mode & 0o022:
            return f"{self._folder}: open to others (mode {stat.S_IMODE(found.st_mode):o})"
        return None

    # --- what others left

    def sweep(self) -> list[int]:
        """End what earlier MCPX processes left behind; the process groups that were ended."""
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return []
        except OSError as error:
            self._disbelieve(self._folder, error.strerror)
            return []
        try:
            if (problem := self._distrust(os.fstat(folder))) is not None:
                self._disbelieve(self._folder, problem)
                return []
            names = os.listdir(folder)  # noqa: PTH208 - of this very folder, whatever its path leads to
            ours = sorted(name for name in names if name.endswith(".json"))
            return [group for name in ours for group in self._sweep_one(folder, name)]
        except OSError as error:
            self._disbelieve(self._folder, error.strerror)
            return []
        finally:
            os.close(folder)

    @staticmethod
    def _disbelieve(path: Path, reason: str | None) -> None:
        log.warning("ledger.not_believed", path=str(path), reason=reason)

    def _sweep_one(self, folder: int, name: str) -> list[int]:
        """End what one file names, if it is of a MCPX that is gone, and delete it."""
        try:
            found, written = _read(folder, name)
            standing = _judge(found)
            if standing is _Standing.ELSEWHERE and time.time() - written > OLD_S:
                standing = _Standing.PAST
            if standing in {_Standing.RUNS, _Standing.ELSEWHERE}:
                return []
            ended = end(found.children.values() if standing is _Standing.LEFT else ())
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:  # another MCPX was quicker
            return []
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            self._disbelieve(self._folder / name, str(error))
            return []
        if ended.left:
            reason = f"they live, but do not all carry {CHILD_MARK}: not proven to be ours"
            log.warning("orphans.left", process_groups=ended.left, reason=reason)
        return ended.groups


class _Standing(Enum):
    """What has become of the MCPX that wrote a file."""

    RUNS = auto()
    LEFT = auto()
    """It is gone, and its children may be left."""
    PAST = auto()
    """It was another boot of this machine: nothing is left."""
    ELSEWHERE = auto()
    """It is, or was, on another machine or in another process namespace: its numbers mean nothing here."""


def _judge(file: _File) -> _Standing:
    if file.boot != boot_id():
        return _Standing.PAST if file.host in {"", os.uname().nodename} else _Standing.ELSEWHERE
    here = pid_namespace()
    if here is None or file.namespace != here:
        return _Standing.ELSEWHERE
    started = start_time(file.owner.pid)
    # of an owner that could not tell its start, any process of that number may be the one
    runs = started is not None and file.owner.started in {"", started}
    return _Standing.RUNS if runs else _Standing.LEFT


def _read(folder: int, name: str) -> tuple[_File, float]:
    """What one file says, and when it was written.

    Raises:
        OSError: It cannot be read, or may be somebody else's.
        msgspec.DecodeError: It is no ledger.
        RecursionError: The same.
    """
    opened = os.open(name, _READ, dir_fd=folder)
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise PermissionError(errno.EPERM, "not a file that is yours alone")
        return msgspec.json.decode(file.read(LARGEST), type=_File), found.st_mtime

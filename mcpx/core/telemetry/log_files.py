"""The log files: the daemon's own, and one for each server, in the folder of their configuration.

A daemon runs for months, with standard output and error in a file. `LogRotation`, a child of the daemon's
root, checks its size now and then: when it is too large, it is kept as `.log.1`, and a new file replaces it
under the same descriptors. Where these are something else, a terminal or the journal, it does nothing.

`ServerLog` takes what a server says on standard error, with the secrets of the configuration redacted. A
full disk, or a folder that cannot be written, is logged once and costs only the file. Whoever follows the log
hears of each line as it is written; nobody does, as a rule, and then nothing is done for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from logging import LogRecord, makeLogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final
from urllib.parse import quote

import anyio
import structlog

from mcpx.core.store.folders import ensure_folder
from supervisors import Incarnation

log = structlog.get_logger()
CHECK_INTERVAL_S: Final = 60.0
MAX_FILE_BYTES: Final = 1_000_000
BACKUP_FILES: Final = 3
MAX_TAIL_BYTES: Final = 256 << 10  # of what is read of a log at once


def server_log_path(server: str, folder: Path) -> Path:
    """The newest file of one server; `folder` is that of its configuration."""
    return folder / "logs" / f"{quote(server, safe=' ')}.log"


def last_lines(path: Path, lines: int, *, max_bytes: int = MAX_TAIL_BYTES) -> list[str]:
    """Return the last lines of a log, at most so many and `max_bytes`; none where there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max_bytes))
            found = file.read(max_bytes).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    whole = found if size <= max_bytes else found[1:]
    return whole[-lines:]


class ServerLog:
    """One server's file, created with its first line. `redact` takes the secrets out of each."""

    def __init__(self, server: str, folder: Path, *, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._server = server
        self.path = server_log_path(server, folder)
        """The newest file; it exists once something was written."""
        self.followers: list[Callable[[str], None]] = []
        """Called with what was written, without the line end, in the turn in which it was. Must not raise."""
        self._handler: _Handler | None = None
        self._broken = False

    def write(self, said: bytes) -> None:
        """Append whole lines with the time before them. Never raises."""
        if self._broken and not self.followers:
            return
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        text = f"{stamp} {self._redact(said.decode(errors='replace').rstrip())}"
        if not self._broken:
            self._append(text)
        for follower in self.followers:
            follower(text)

    def _append(self, text: str) -> None:
        try:
            if self._handler is None:
                ensure_folder(self.path.parent)
                self._handler = _Handler(
                    self.path, maxBytes=MAX_FILE_BYTES, backupCount=BACKUP_FILES, encoding="utf-8"
                )
            self._handler.emit(makeLogRecord({"msg": text}))
        except OSError as error:
            self._broken = True
            log.warning("server_log.unwritable", server=self._server, path=str(self.path), reason=str(error))

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        if self._handler is not None:
            self._handler.close()
            self._handler = None


class _Handler(RotatingFileHandler):
    """Lets errors through that the base class would print to standard error."""

    def handleError(self, record: LogRecord) -> None:  # noqa: ARG002, N802 - logging's signature
        raise  # noqa: PLE0704 - called by the base class inside its except clause


# --- the daemon's own


class LogRotation:
    """Rotates the log at `path` when it exceeds `largest` bytes."""

    def __init__(self, path: Path, largest: int, *, every: float = CHECK_INTERVAL_S) -> None:
        self._path = path
        self._largest = largest
        self._every = every

    async def run(self, incarnation: Incarnation) -> None:
        """Check until the supervisor asks this child to stop."""
        incarnation.ready()
        while not incarnation.stopping.is_set():
            try:
                rotate(self._path, self._largest)
            except OSError as error:  # a full disk, a folder that is gone: the old file goes on
                log.warning("log.not_rotated", path=str(self._path), reason=error.strerror)
            with anyio.move_on_after(self._every):
                await incarnation.stopping.wait()


def rotate(path: Path, largest: int) -> bool:
    """Begin a new log if this process writes to `path` and it is larger than that; whether it was.

    Raises:
        OSError: The file cannot be replaced.
    """
    current = os.fstat(2)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    if not os.path.samestat(current, there) or there.st_size <= largest:
        return False
    path.replace(path.with_suffix(".log.1"))
    begun = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        for fd in (1, 2):
            if os.path.samestat(os.fstat(fd), current):
                os.dup2(begun, fd)
    finally:
        os.close(begun)
    return True

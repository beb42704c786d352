"""What the servers say on standard error: a rotating file for each, in the folder of their configuration.

Written by the upstream actor, with the secrets of the configuration redacted. A full disk, or a folder that
cannot be written, is logged once and costs only the file. Whoever follows the log hears of each line as it is
written; nobody does, as a rule, and then nothing is done for it.
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

import structlog

from mcpx.core.store.folders import ensure_folder

log = structlog.get_logger()
MAX_FILE_BYTES: Final = 1_000_000
BACKUP_FILES: Final = 3
MAX_TAIL_BYTES: Final = 256 << 10  # of what is read of a log at once


def server_log_path(server: str, folder: Path) -> Path:
    """The newest file of one server; `folder` is that of its configuration."""
    return folder / "logs" / f"{quote(server, safe=' ')}.log"


def last_lines(path: Path, lines: int) -> list[str]:
    """The last lines of a log, at most so many and `MAX_TAIL_BYTES`; none where there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MAX_TAIL_BYTES))
            found = file.read(MAX_TAIL_BYTES).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    whole = found if size <= MAX_TAIL_BYTES else found[1:]
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

"""The end of a log file, and what is added to it, as lines that a terminal can show.

It follows the file across a rotation, and one that appears later. Everything is bounded: what is read at a
time, the length of a line, and what is kept of one that has no end. What is left out is said in a line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

from mcpx.core.text import escaped

READ_BYTES: Final = 256 * 1024  # at a time, and of the past
MAX_LINE_CHARACTERS: Final = 1000


class LogFile:
    """One log file; `news` says what it has more of. Close it in the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def news(self) -> list[str]:
        """The lines since the last time; the first time those that stand at the end. Escaped, and cut.

        Raises:
            OSError: The file cannot be read. That there is none is no error.
        """
        lines: list[str] = []
        if self._file is not None and not self._is_current(self._file):
            lines += self._read(self._file)
            self.close()
        if self._file is None:
            try:
                self._file = self.path.open("rb")
            except FileNotFoundError:
                return lines
        return lines + self._read(self._file)

    def close(self) -> None:
        """Close the file; the next `news` opens it again, from its beginning."""
        if self._file is not None:
            self._file.close()
        self._file, self._rest = None, b""

    def _is_current(self, log: BinaryIO) -> bool:
        """Whether the path still leads to the open file, and nobody has emptied it."""
        mine = os.fstat(log.fileno())
        if mine.st_size < log.tell():
            return False
        try:
            return os.path.samestat(mine, self.path.stat())
        except FileNotFoundError:
            return True  # in the middle of a rotation: there is nothing else to read yet

    def _read(self, log: BinaryIO) -> list[str]:
        lines: list[str] = []
        behind = os.fstat(log.fileno()).st_size - log.tell() - READ_BYTES
        if behind > 0:
            lines.append(f"... {behind} bytes before this are not shown")
            log.seek(behind, os.SEEK_CUR)
            log.readline(MAX_LINE_CHARACTERS)  # the end of a line whose beginning is left out
            self._rest = b""
        *whole, self._rest = (self._rest + log.read(READ_BYTES)).split(b"\n")
        if len(self._rest) > READ_BYTES:  # a line without an end
            whole.append(self._rest)
            self._rest = b""
        return lines + [_shown(line) for line in whole]


def _shown(line: bytes) -> str:
    text = line[: 4 * MAX_LINE_CHARACTERS].decode(errors="replace").rstrip("\r")
    shown = escaped(text)
    return shown if len(shown) <= MAX_LINE_CHARACTERS else shown[:MAX_LINE_CHARACTERS] + "…"

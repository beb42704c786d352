"""Memory that a session with each server was seen to take, in a file for the first placement.

Owned by the cluster. The most that was seen counts, and fades: what a server took on one bad day is not asked
for for ever. The file is a statistic: one that cannot be read or written costs nothing but that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import structlog

from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import read_own_file, replace_file

log = structlog.get_logger()
FILE_NAME: Final = "memory.json"
MAX_SERVERS: Final = 10_000
MAX_FILE_BYTES: Final = 4 << 20
FADES: Final = 0.9995
"""Of what was seen, for each look at a server, of which there is one a second: half after 23 minutes."""


class SeenMemory:
    """By server, bytes for one session. `folder` is that of the configuration."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._bytes: dict[str, float] = {}
        self._saved: dict[str, int] = {}
        self._is_broken = False

    def of(self, server: str) -> int:
        """Bytes that one session with that server takes; 0 where it has not been seen."""
        return int(self._bytes.get(server, 0))

    def note(self, server: str, memory: int, sessions: int) -> None:
        """Take in what a server's processes take on one node, for so many sessions."""
        if memory <= 0 or (server not in self._bytes and len(self._bytes) >= MAX_SERVERS):
            return
        each = memory / max(1, sessions)
        self._bytes[server] = max(each, self._bytes.get(server, 0.0) * FADES)

    def load(self) -> None:
        """Read the file, if there is one. Blocks."""
        try:
            data = read_own_file(self._path, MAX_FILE_BYTES, closed_to=0)
            found = msgspec.json.decode(data, type=dict[str, int])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        self._saved = {name: each for name, each in list(found.items())[:MAX_SERVERS] if each > 0}
        self._bytes = {**self._saved, **self._bytes}

    def changed(self) -> dict[str, int] | None:
        """Return what is to be written; None where it has hardly changed since."""
        now = {name: int(each) for name, each in self._bytes.items()}
        same = now.keys() == self._saved.keys() and all(
            abs(each - self._saved[name]) < each / 10 for name, each in now.items()
        )
        return None if same else now

    def save(self, found: dict[str, int]) -> None:
        """Write the file. Blocks, and never raises."""
        self._saved = found
        try:
            ensure_folder(self._path.parent)
            replace_file(self._path, msgspec.json.encode(found), synced=False)
            self._is_broken = False
        except OSError as error:
            if not self._is_broken:
                log.warning("cluster.memory_unwritable", path=str(self._path), reason=error.strerror)
            self._is_broken = True

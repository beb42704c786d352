"""The id of this MCPX, which tells it from all others: random, made once for a configuration.

It is kept in the file `id` of the configuration's folder, so that a restart keeps it, and of several
processes that serve the configuration all have the same. By it a server that would come back to where it
comes from is noticed.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

import structlog

from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import locked, read_own_file, replace_file

log = structlog.get_logger()
FILE: Final = "id"
LOCK_TIMEOUT_S: Final = 2.0  # for another process that makes it, of a moment
_BYTES: Final = 16
_MAX_BYTES: Final = 4096  # of a file that holds something else
_CHARS: Final = frozenset("0123456789abcdef")


def own_id(folder: Path) -> str:
    """The id in that folder; made if there is none. Where it cannot be kept, it is one of this process."""
    path = folder / FILE
    try:
        if (known := _read(path)) is not None:
            return known
        ensure_folder(folder)
        return _make(path)
    except OSError as error:
        log.warning("mcpx.id_not_kept", path=str(path), reason=error.strerror)
        return secrets.token_hex(_BYTES)


def _make(path: Path) -> str:
    """Make the file, in place of one that holds no id; of several processes the first one's id counts."""
    with locked(path.parent, timeout_s=LOCK_TIMEOUT_S):
        if (known := _read(path)) is not None:  # made by another, while this one waited
            return known
        made = secrets.token_hex(_BYTES)
        replace_file(path, f"{made}\n".encode(), synced=False)
        return made


def _read(path: Path) -> str | None:
    try:
        text = read_own_file(path, _MAX_BYTES, closed_to=0).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    return text if len(text) == 2 * _BYTES and set(text) <= _CHARS else None

"""What tells this MCPX from all others: a random id, made once for a state folder and configuration.

It is kept in the file `id` of the configuration's folder, so that a restart keeps it, and of several
processes that serve the configuration all have the same. By it a server that would come back to where it
comes from is noticed.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from mcpx.paths import CREATE_FLAGS, READ_FLAGS, ensure_folder

log = structlog.get_logger()
FILE: Final = "id"
_BYTES: Final = 16
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
    """Make the file, whole before it has its name; of several processes the first one's counts."""
    made = secrets.token_hex(_BYTES)
    new = path.with_name(f"{FILE}.{secrets.token_hex(8)}.new")
    try:
        with os.fdopen(os.open(new, CREATE_FLAGS, 0o600), "w") as file:
            file.write(f"{made}\n")
        if path.exists():  # not an id: nobody else's is lost
            new.replace(path)
        else:
            with suppress(FileExistsError):
                os.link(new, path)
    finally:
        new.unlink(missing_ok=True)
    return _read(path) or made


def _read(path: Path) -> str | None:
    try:
        descriptor = os.open(path, READ_FLAGS)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(4 * _BYTES).decode(errors="replace").strip()
    return text if len(text) == 2 * _BYTES and set(text) <= _CHARS else None

"""Removes what daemons that are gone have left: sockets and locks, and what was kept for configurations.

Called by `mcpx daemon list` and `stop --all`, and by each daemon once it runs. A lock decides whether a
daemon is gone: while its files are removed, the lock is held, so that none can be starting. Only files that
MCPX makes, in folders that are this user's alone, are ever touched.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.paths import check_runtime_folder, check_state_folder, lock_owner, take_lock
from mcpx.core.store.private_files import replace_file
from mcpx.errors import DaemonError
from mcpx.paths import CONFIGURATIONS, configuration_folder, runtime_folder, state_folder

DAY_S: Final = 86400.0
MAX_MARK_AGE_S: Final = DAY_S  # of the note that a daemon was stopped: by then its shims have read it
MAX_UNUSED_S: Final = 30 * DAY_S  # what is kept for a configuration whose file is gone, and former logs
FORMER_LOGS: Final = ("daemon-*.log*", "logs/*.log*")
"""In the state folder, where the logs of all configurations once were."""
CONFIGURATION_NOTE: Final = "config"
"""In the folder of a configuration: a file with its path."""
_NAME: Final = re.compile(r"[0-9a-f]{16}")


def claim_configuration_folder(path: str | os.PathLike[str]) -> Path:
    """Create a configuration's folder if possible, with the configuration's path in it."""
    folder = configuration_folder(path)
    with suppress(OSError):
        ensure_folder(folder)
        absolute = os.fsencode(os.path.abspath(path))
        note = folder / CONFIGURATION_NOTE
        if not note.exists() or note.read_bytes() != absolute or note.stat().st_mode & 0o077:
            replace_file(note, absolute, synced=False)
    return folder


def clean_up() -> None:
    """Remove what is stale. What cannot be removed is left; never raises."""
    with suppress(OSError, DaemonError):
        folder = runtime_folder()
        check_runtime_folder(folder)
        for name in {path.stem for path in folder.iterdir() if _NAME.fullmatch(path.stem)}:
            with suppress(OSError, DaemonError):
                _clean_up_daemon(folder, name)
    with suppress(OSError, DaemonError):
        check_state_folder()
        for folder in (state_folder() / CONFIGURATIONS).iterdir():
            with suppress(OSError, DaemonError):
                _clean_up_configuration(folder)
    for pattern in FORMER_LOGS:
        for path in state_folder().glob(pattern):
            with suppress(OSError):
                if _is_older(path, MAX_UNUSED_S):
                    path.unlink()


def _clean_up_daemon(folder: Path, name: str) -> None:
    """Remove the files of a daemon that is gone."""
    alias = folder / f"{name}.alias"
    if alias.is_symlink() and lock_owner(folder / f"{alias.readlink().name}.lock") is None:
        alias.unlink()
    if not any((folder / f"{name}.{kind}").exists() for kind in ("lock", "sock", "starting", "stopped")):
        return
    with _held(folder / f"{name}.lock"), _held(folder / f"{name}.starting"):
        sock = folder / f"{name}.sock"
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(sock.lstat().st_mode):
                sock.unlink()
        stopped = folder / f"{name}.stopped"
        with suppress(FileNotFoundError):
            if _is_older(stopped, MAX_MARK_AGE_S):
                stopped.unlink()
        (folder / f"{name}.starting").unlink(missing_ok=True)
        (folder / f"{name}.lock").unlink(missing_ok=True)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold a lock."""
    lock = take_lock(path)
    if lock is None:
        raise BlockingIOError
    try:
        yield
    finally:
        os.close(lock)


def _clean_up_configuration(folder: Path) -> None:
    """Remove what is kept for a configuration whose file is gone, if nobody has used it for long."""
    if not _NAME.fullmatch(folder.name) or folder.is_symlink():
        return
    if lock_owner(runtime_folder() / f"{folder.name}.lock") is not None:
        return
    note = folder / CONFIGURATION_NOTE
    if note.exists() and os.path.lexists(os.fsdecode(note.read_bytes())):
        return
    if all(_is_older(path, MAX_UNUSED_S) for path in (folder, *folder.rglob("*"))):
        shutil.rmtree(folder)


def _is_older(path: Path, seconds: float) -> bool:
    return time.time() - path.lstat().st_mtime > seconds

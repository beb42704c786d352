"""Folders for private files: made for their owner alone, and checked before what is in them is believed.

A file of MCPX is worth as much as the folder that it is in: whoever may write there can put another in its
place. So a store makes its folder with `ensure_folder`, and asks `distrust_folder` before it reads.

Standard library only: `mcpx attach` imports this.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from mcpx.core.system.users import is_own_group, is_unmapped

OWNER_ONLY = 0o700


def ensure_folder(path: Path) -> Path:
    """Create `path` and its missing parents, readable by their owner only.

    Raises:
        OSError: One of them cannot be created.
    """
    try:
        path.mkdir(mode=OWNER_ONLY, exist_ok=True)
    except FileNotFoundError:
        if path.parent == path:
            raise
        ensure_folder(path.parent)
        path.mkdir(mode=OWNER_ONLY, exist_ok=True)
    return path


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a power cut.

    Raises:
        OSError: It cannot be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # file systems that cannot, which the rename itself does not depend on
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def distrust_folder(folder: Path, found: os.stat_result | None = None) -> str | None:
    """Say why other users may have written in the folder, or have replaced it; None if they cannot have.

    `found` is what was read of it before, with links not followed.

    Raises:
        OSError: It, or the folder that it is in, cannot be seen.
    """
    found = folder.lstat() if found is None else found
    if others_may_change(folder.parent.stat()):
        return f"{folder.parent}: others may change it"
    problem = foreign_folder(folder, found)
    return None if problem is None else f"{folder}: {problem}"


def foreign_folder(folder: Path, found: os.stat_result | None = None) -> str | None:
    """Say why the folder itself is not this user's alone; None if it is.

    Raises:
        OSError: It cannot be seen.
    """
    found = folder.lstat() if found is None else found
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return "not a folder of yours"
    if found.st_mode & 0o022:
        return f"open to others (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def others_may_change(found: os.stat_result, *, sticky_is_safe: bool = False) -> bool:
    """Return True if other users can change what is in this folder: they own it, or may write to it.

    In a sticky folder (/tmp) others can add files, but not change this user's: that is enough if the owner of
    each file is checked (`sticky_is_safe`).
    """
    open_to_others = bool(found.st_mode & 0o022)
    if sticky_is_safe and found.st_mode & stat.S_ISVTX:
        open_to_others = False
    return found.st_uid not in {os.getuid(), 0} or open_to_others


def replaceable_above(folder: Path) -> Path | None:
    """Find the folder above `folder`, or above what that links to, in which others can replace the way there.

    None where there is none. A pod of Kubernetes has no others, and its volumes are open to all.
    """
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    lexical, real = Path(os.path.abspath(folder)), Path(os.path.realpath(folder))
    for above in (*lexical.parents, *real.parents):
        try:
            if _may_be_replaced_in(above.stat()):
                return above
        except OSError:  # it is made, or cannot be seen into
            continue
    return None


def _may_be_replaced_in(found: os.stat_result) -> bool:
    """Return True if other users own that folder, or may rename what is in it."""
    if found.st_uid not in {os.getuid(), 0} and not is_unmapped(found.st_uid):
        return True
    if found.st_mode & stat.S_ISVTX:
        return False
    return bool(found.st_mode & 0o002 or (found.st_mode & 0o020 and not is_own_group(found.st_gid)))

"""Private files, under every store of MCPX: read if they are this user's, and replaced whole.

A reader goes through no link, waits for no pipe, and refuses what another user may have written
(`ForeignFileError`). A writer writes a partial file beside the one that it replaces, which a crash leaves
behind and a power cut cannot make half a file. Each function blocks, and raises `OSError` for what the system
refuses. Locks are in `mcpx.core.system.locks`.

Standard library only: `mcpx attach` imports this.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

PARTIAL_SUFFIX = ".new"
"""Of a file that `replace_file` has not finished."""
READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""To open a file of MCPX's own: through no link, and without waiting where a pipe has its name."""
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
"""To create a file that must not exist yet, also not as a link."""
ANOTHER = "not a file that is yours alone"
"""The `strerror` of a `ForeignFileError` for what another user, or no user, has written."""


class ForeignFileError(PermissionError):
    """A file that another user may have written, or that MCPX has not. `strerror` is what it is, or is not.

    `mode` are its permissions where they alone are wrong: the file is this user's, and open to others.
    """

    def __init__(self, path: Path | str, problem: str, *, mode: int | None = None) -> None:
        super().__init__(errno.EPERM, problem, str(path))
        self.mode = mode

    def __str__(self) -> str:
        return f"{self.filename} is {self.strerror}"


# --- reading


def open_own_file(
    path: Path | str, *, closed_to: int = 0o022, or_roots: bool = False, dir_fd: int | None = None
) -> BinaryIO:
    """Open a regular file of this user's to read it. With `dir_fd` the path begins in that open folder.

    `closed_to` are the mode bits that it must not have: those of writing, unless others may not even read.
    `or_roots`: one that root has written for this user will do.

    Raises:
        OSError: It cannot be opened; there is none.
        ForeignFileError: Another user may have written it.
    """
    try:
        opened = os.open(path, READ_FLAGS, dir_fd=dir_fd)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ForeignFileError(path, "a link") from None
        raise
    found = os.fstat(opened)
    owners = {os.getuid(), 0} if or_roots else {os.getuid()}
    own = stat.S_ISREG(found.st_mode) and found.st_uid in owners
    if own and not found.st_mode & closed_to:
        return os.fdopen(opened, "rb")
    os.close(opened)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    mode = stat.S_IMODE(found.st_mode) if own else None
    raise ForeignFileError(path, ANOTHER, mode=mode)


def read_own_file(path: Path, max_bytes: int, *, closed_to: int = 0o022, or_roots: bool = False) -> bytes:
    """Read a file that `open_own_file` opens.

    Raises:
        OSError: It cannot be read; there is none.
        ForeignFileError: Another user may have written it, or it is too long.
    """
    with open_own_file(path, closed_to=closed_to, or_roots=or_roots) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ForeignFileError(path, "too long")
    return data


# --- writing


def create_file(path: Path, contents: bytes, *, synced: bool = True, mode: int = 0o600) -> None:
    """Write a file that is not there yet. Unless `synced`, a power cut may cost it.

    It is for its owner alone, unless `mode` says otherwise, from which the umask is taken.

    Raises:
        OSError: It cannot be written, or something has that name; of the file a part may be there.
    """
    with os.fdopen(os.open(path, CREATE_FLAGS, mode), "wb") as file:
        file.write(contents)
        if synced:
            file.flush()
            os.fsync(file.fileno())


def replace_file(path: Path, contents: bytes, *, synced: bool = True, mode: int = 0o600) -> None:
    """Put a whole file in the place of `path`, whose folder exists; with parameters as of `create_file`.

    It is written beside it, as `*.new`, which stays if the process is killed (`remove_partial`).

    Raises:
        OSError: It cannot be written; `path` is as it was.
    """
    new = path.with_name(f"{path.stem}.{os.urandom(8).hex()}{PARTIAL_SUFFIX}")
    try:
        create_file(new, contents, synced=synced, mode=mode)
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise


def remove_partial(path: Path) -> None:
    """Remove what killed writers of `path` have begun. The caller holds the lock that they held."""
    for each in path.parent.glob(f"{path.stem}.*{PARTIAL_SUFFIX}"):
        with suppress(OSError):
            each.unlink()

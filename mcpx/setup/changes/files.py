"""Files of other programs: read whole, and replaced whole, through links.

A file is never written in place: its new contents are staged beside it and renamed over it, so whoever reads
it, and whoever finds it after a kill, sees the old file or the new one. Where the path is a link, the file
that it leads to is replaced and the link stays. Used here, and by the commands that read such files.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from mcpx.core.store.folders import ensure_folder, sync_folder
from mcpx.core.store.private_files import CREATE_FLAGS
from mcpx.errors import MCPXError

MAX_FILE_BYTES: Final = (
    64 << 20
)  # of a client's configuration: Claude Code keeps its history in the same file
OWNER_FILE: Final = 0o600  # the mode of a file that did not exist


class ChangeError(MCPXError):
    """Files cannot be changed or read; the text says which, why, and what became of the others."""


class FileChanged(ChangeError):
    """A file is not what it was when the change was prepared, so nothing was written."""


def read_file(path: str | os.PathLike[str]) -> bytes | None:
    """Return what the file holds, through links; None if there is none.

    Raises:
        ChangeError: It cannot be read, is no regular file, or holds more than 64 MiB.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise ChangeError(f"{path}: {reason(error)}") from None
    try:
        return _contents(descriptor, path)
    except OSError as error:
        raise ChangeError(f"{path}: {reason(error)}") from None
    finally:
        os.close(descriptor)


def _contents(descriptor: int, path: str | os.PathLike[str]) -> bytes:
    """Return what an open file holds."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise ChangeError(f"{path}: not a regular file")
    contents = b""
    if found.st_size <= MAX_FILE_BYTES:
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            contents = file.read(MAX_FILE_BYTES + 1)  # it may grow meanwhile
    if max(found.st_size, len(contents)) > MAX_FILE_BYTES:
        raise ChangeError(f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB")
    return contents


def real_path(path: str | os.PathLike[str]) -> Path:
    """The absolute path of the file itself: where the links lead, whether it exists or not."""
    return Path(os.path.realpath(path))


def obstacle(path: str | os.PathLike[str]) -> str | None:
    """Return why the file cannot be replaced or created, as far as can be seen; None if it can."""
    target = real_path(path)
    try:
        if not target.stat().st_mode & 0o222:
            return "it is read-only"
    except OSError:
        pass
    folder = next(each for each in target.parents if each.exists())
    return None if os.access(folder, os.W_OK | os.X_OK) else f"{folder} cannot be written to"


def missing_folders(target: Path) -> tuple[str, ...]:
    """The folders that must be created before the file can be, the innermost first."""
    missing = []
    for folder in target.parents:
        if folder.exists():
            break
        missing.append(str(folder))
    return tuple(missing)


def stage(staged: Path, target: Path, contents: bytes, mode: int) -> None:
    """Write what `target` is to hold into `staged`, beside it, with the mode and the owner of `target`.

    Where there is no `target`, the file gets `mode`, and its folder is created.

    Raises:
        OSError: It cannot be written.
    """
    ensure_folder(target.parent)
    with os.fdopen(os.open(staged, CREATE_FLAGS, OWNER_FILE), "wb") as file:
        file.write(contents)
        file.flush()
        _dress(file.fileno(), staged, target, mode)
        os.fsync(file.fileno())


def _dress(descriptor: int, staged: Path, target: Path, mode: int) -> None:
    """Give the staged file the owner, mode and attributes of the file that it will replace."""
    try:
        found = target.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, mode)
        return
    with suppress(OSError):  # only root may give a file away
        os.fchown(descriptor, found.st_uid, found.st_gid)
    with suppress(OSError):  # extended attributes, which not every file system has
        shutil.copystat(target, staged)
        os.utime(staged)
    os.fchmod(descriptor, stat.S_IMODE(found.st_mode))


def put_in_place(staged: Path, target: Path) -> None:
    """Rename the staged file over `target`, for good.

    Raises:
        OSError: It cannot be renamed; `target` is as it was.
    """
    staged.replace(target)
    sync_folder(target.parent)


def remove(target: Path, folders: tuple[str, ...] = ()) -> None:
    """Remove the file, and those of `folders` that are empty then: the innermost first.

    Raises:
        OSError: The file cannot be removed.
    """
    target.unlink(missing_ok=True)
    remove_empty(folders)
    with suppress(OSError):
        sync_folder(target.parent)


def remove_empty(folders: tuple[str, ...]) -> None:
    """Remove those folders that are there, and empty: the innermost first."""
    for folder in folders:
        with suppress(OSError):
            Path(folder).rmdir()


def reason(error: OSError | ValueError) -> str:
    """Return the system's own words for an error."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)

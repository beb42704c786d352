"""The files of `FileStore`: one record each, for its owner alone, replaced whole and under a lock.

`KEY.json` holds a record, `KEY.lock` is locked (flock) while it is changed, `KEY.set-aside` is what could not
be used. A process that is killed leaves an unfinished `KEY.*.new`, which the next writer removes. Every
function blocks, and raises `OSError` for what the system refuses.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import PARTIAL_SUFFIX, READ_FLAGS, replace_file
from mcpx.oauth.record import Identity, Record

FORMAT: Final = 1
MAX_RECORD_BYTES: Final = 2 << 20  # the metadata of two servers, of 256 KiB each before it is written as JSON
_OPEN_TO_OTHERS: Final = 0o077
_LOCK_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class UnusableRecord(Exception):  # noqa: N818 - a condition
    """A record is not one that MCPX has written for this identity; the text says why."""


class _Stored(msgspec.Struct, frozen=True):
    format: int
    record: Record


def encode_record(record: Record) -> bytes:
    """A record as it is stored, on one line."""
    return msgspec.json.encode(_Stored(FORMAT, record))


def decode_record(data: bytes, identity: Identity) -> Record:
    """The record in what is stored.

    Raises:
        UnusableRecord: It is none, or that of another identity.
    """
    try:
        stored = msgspec.json.decode(data, type=_Stored)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnusableRecord("it is damaged") from None
    if stored.format != FORMAT:
        raise UnusableRecord(f"it has format {stored.format}, not {FORMAT}")
    if stored.record.identity != identity:
        raise UnusableRecord("it belongs to another server")
    return stored.record


def prepare(folder: Path) -> None:
    """Create the folder, or see that it is for its owner alone.

    Raises:
        PermissionError: Others may change what is in it.
    """
    ensure_folder(folder)
    if _checked(folder).st_mode & _OPEN_TO_OTHERS:
        folder.chmod(0o700)


def read_record(folder: Path, identity: Identity) -> Record | None:
    """The record of an identity; None if there is none.

    Raises:
        UnusableRecord: It cannot be used.
        PermissionError: Others may change what is in the folder.
    """
    try:
        _checked(folder)
        opened = os.open(record_path(folder, identity), READ_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UnusableRecord("it is a link") from None
    try:
        return decode_record(_read_own(opened), identity)
    finally:
        os.close(opened)


def _read_own(opened: int) -> bytes:
    found = os.fstat(opened)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise UnusableRecord("it is not a file that is yours alone")
    if found.st_size > MAX_RECORD_BYTES:
        raise UnusableRecord("it is too long")
    if found.st_mode & _OPEN_TO_OTHERS:
        os.fchmod(opened, 0o600)
    with os.fdopen(opened, "rb", closefd=False) as file:
        return file.read(MAX_RECORD_BYTES)


def write_record(folder: Path, record: Record) -> None:
    """Put a record in the place of the one of its identity, so that a power cut does not undo it."""
    prepare(folder)
    _remove_partial(folder, record.identity)
    replace_file(record_path(folder, record.identity), encode_record(record))
    with suppress(FileNotFoundError):
        mark_path(folder, record.identity).unlink()
    _sync(folder)


def set_aside(folder: Path, identity: Identity) -> Path | None:
    """Move what cannot be used out of the way, for its owner alone. Returns where it is then, if it is."""
    path = record_path(folder, identity)
    aside = path.with_suffix(".set-aside")
    try:
        read_record(folder, identity)
    except UnusableRecord:
        path.replace(aside)
    else:
        return None  # another process has written it meanwhile
    with suppress(OSError):
        if aside.is_symlink():
            aside.unlink()
        else:
            aside.chmod(0o600)
    return aside


def remove_record(folder: Path, identity: Identity) -> None:
    """Remove a record, and what is left of others."""
    _remove_partial(folder, identity)
    path = record_path(folder, identity)
    for each in (path, path.with_suffix(".set-aside")):
        with suppress(FileNotFoundError, NotADirectoryError):
            each.unlink()
    with suppress(FileNotFoundError, NotADirectoryError):
        _sync(folder)


def delete_record(folder: Path, identity: Identity) -> None:
    """Remove a record with its lock, which the caller has."""
    remove_record(folder, identity)
    with suppress(FileNotFoundError, NotADirectoryError):
        lock_path(folder, identity).unlink()


def try_lock(folder: Path, identity: Identity) -> int | None:
    """Lock a record without waiting: the descriptor that holds the lock until it is closed; None if taken."""
    path = lock_path(folder, identity)
    descriptor = os.open(path, _LOCK_FLAGS, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found, there = os.fstat(descriptor), path.stat(follow_symlinks=False)
        if (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino):
            return descriptor
    except (BlockingIOError, FileNotFoundError):  # taken, or removed with its record meanwhile
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def record_path(folder: Path, identity: Identity) -> Path:
    """Where the record of an identity is."""
    return folder / f"{identity.key}.json"


def lock_path(folder: Path, identity: Identity) -> Path:
    """Where its lock is."""
    return folder / f"{identity.key}.lock"


def mark_path(folder: Path, identity: Identity) -> Path:
    """Where it is noted that the keychain has the record, and not this folder."""
    return folder / f"{identity.key}.keychain"


def _checked(folder: Path) -> os.stat_result:
    """What the folder is found as. Where others may replace it as a whole, theirs is not taken for it.

    Raises:
        PermissionError: Others may change what is in it.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not a folder of yours")
    if found.st_mode & 0o022:
        raise PermissionError(f"{folder} is open to others (mode {stat.S_IMODE(found.st_mode):o})")
    return found


def _remove_partial(folder: Path, identity: Identity) -> None:
    for each in folder.glob(f"{identity.key}.*{PARTIAL_SUFFIX}"):
        with suppress(OSError):
            each.unlink()


def _sync(folder: Path) -> None:
    """Have a file's new name reach the disk. Some file systems cannot, and do so by themselves."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

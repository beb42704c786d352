"""The store of tokens: `FileStore`, a file for each record, or the system's keychain (`keychain_store`).

What is written is there whole or not at all, also after a crash. Two processes that refresh the same tokens
take turns by `lock`, and read again what is stored once they have it. Nothing here shows a token.

`KEY.json` holds a record, `KEY.lock` is locked (flock) while it is changed, `KEY.set-aside` is what could not
be used. A process that is killed leaves an unfinished `KEY.*.new`, which the next writer removes. The
functions block, and raise `OSError` for what the system refuses.
"""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio
import anyio.to_thread
import msgspec
import structlog

from mcpx.core.store.folders import ensure_folder, foreign_folder, sync_folder
from mcpx.core.store.private_files import (
    ForeignFileError,
    open_own_file,
    remove_partial,
    replace_file,
    try_lock,
)
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.record import Identity, Record
from mcpx.paths import state_folder

log = structlog.get_logger()
FOLDER: Final = "oauth"
"""In the state folder: the records of sign-ins."""
LOCK_TIMEOUT_S: Final = 45.0  # for another process: a refresh takes 30 s at most
FORMAT: Final = 1
MAX_RECORD_BYTES: Final = 2 << 20  # the metadata of two servers, of 256 KiB each before it is written as JSON
_LOCK_PAUSE_S: Final = 0.02
_OPEN_TO_OTHERS: Final = 0o077
_ABSENT: Final = (FileNotFoundError, NotADirectoryError)
T = TypeVar("T")


class TokenStore(Protocol):
    """Keeps records. No method blocks the event loop."""

    async def read(self, identity: Identity) -> Record | None:
        """The record of that identity; None if there is none, or none that can be used.

        Raises:
            SignInError: The store cannot be read (`NOT_STORED`).
        """
        ...

    async def write(self, record: Record) -> None:
        """Put a record in the place of the one of its identity, durably.

        Raises:
            SignInError: It cannot be written (`NOT_STORED`); what was there is there.
        """
        ...

    async def delete(self, identity: Identity) -> None:
        """Remove the record of that identity, with all that is left of it. Only under its `lock`.

        Raises:
            SignInError: It cannot be removed (`NOT_STORED`).
        """
        ...

    def lock(self, identity: Identity) -> AbstractAsyncContextManager[None]:
        """Keep out the other processes, and tasks, that change this record: a bounded wait.

        Raises:
            SignInError: Another one does not let go of it (`NOT_STORED`).
        """
        ...

    def stamp(self, identity: Identity) -> object:
        """Something that is another when the record was changed, by whomever; None without one. Quick."""
        ...


# --- the files


class UnusableRecord(Exception):
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


def _checked(folder: Path) -> os.stat_result:
    """Look at the folder. Where others may replace it as a whole, theirs is not taken for it.

    Raises:
        PermissionError: Others may change what is in it.
    """
    found = folder.lstat()
    if (problem := foreign_folder(folder, found)) is not None:
        raise PermissionError(errno.EPERM, problem)
    return found


def read_record(folder: Path, identity: Identity) -> Record | None:
    """Read the record of an identity; None if there is none.

    Raises:
        UnusableRecord: It cannot be used.
        PermissionError: Others may change what is in the folder.
    """
    try:
        _checked(folder)
        with open_own_file(record_path(folder, identity)) as file:
            if os.fstat(file.fileno()).st_mode & _OPEN_TO_OTHERS:
                os.fchmod(file.fileno(), 0o600)
            data = file.read(MAX_RECORD_BYTES + 1)
    except _ABSENT:
        return None
    except IsADirectoryError:
        raise UnusableRecord("it is a folder") from None
    except ForeignFileError as error:
        raise UnusableRecord(f"it is {error.strerror}") from None
    if len(data) > MAX_RECORD_BYTES:
        raise UnusableRecord("it is too long")
    return decode_record(data, identity)


def write_record(folder: Path, record: Record) -> None:
    """Put a record in the place of the one of its identity, so that a power cut does not undo it."""
    prepare(folder)
    remove_partial(record_path(folder, record.identity))
    replace_file(record_path(folder, record.identity), encode_record(record))
    with suppress(FileNotFoundError):
        mark_path(folder, record.identity).unlink()
    sync_folder(folder)


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
    path = record_path(folder, identity)
    remove_partial(path)
    for each in (path, path.with_suffix(".set-aside")):
        with suppress(*_ABSENT):
            each.unlink()
    with suppress(*_ABSENT):
        sync_folder(folder)


def delete_record(folder: Path, identity: Identity) -> None:
    """Remove a record with its lock, which the caller has."""
    remove_record(folder, identity)
    with suppress(*_ABSENT):
        lock_path(folder, identity).unlink()


def record_path(folder: Path, identity: Identity) -> Path:
    """Return the path of an identity's record."""
    return folder / f"{identity.key}.json"


def lock_path(folder: Path, identity: Identity) -> Path:
    """Return the path of its lock."""
    return folder / f"{identity.key}.lock"


def _try_lock(folder: Path, identity: Identity) -> int | None:
    return try_lock(lock_path(folder, identity))


def mark_path(folder: Path, identity: Identity) -> Path:
    """Return the path of the mark that the keychain has the record, and not this folder."""
    return folder / f"{identity.key}.keychain"


# --- the store of files


class FileStore:
    """Keeps each record in a file. `state` is the state folder, if not the usual one."""

    def __init__(self, state: Path | None = None) -> None:
        self._state = state

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return (self._state or state_folder()) / FOLDER

    async def read(self, identity: Identity) -> Record | None:
        """The record of that identity, as `TokenStore` has it."""
        try:
            return await self._do(read_record, identity)
        except UnusableRecord as error:
            if (aside := await self._do(set_aside, identity)) is None:
                return await self.read(identity)
            log.warning("oauth.record_set_aside", server=identity.server, reason=str(error), path=str(aside))
            return None

    async def write(self, record: Record) -> None:
        """Put a record in the place of the one of its identity, as `TokenStore` has it."""
        await self._do(write_record, record)

    async def delete(self, identity: Identity) -> None:
        """Remove the record of that identity, as `TokenStore` has it."""
        await self._do(delete_record, identity)

    async def remove_file(self, identity: Identity) -> None:
        """Remove the record alone, which another store has by now.

        Raises:
            SignInError: It cannot be removed (`NOT_STORED`).
        """
        await self._do(remove_record, identity)

    @asynccontextmanager
    async def lock(self, identity: Identity) -> AsyncIterator[None]:
        """Keep out others, as `TokenStore` has it."""
        descriptor = await self._locked(identity)
        try:
            yield
        finally:
            os.close(descriptor)

    async def _locked(self, identity: Identity) -> int:
        await self._do(lambda folder, _: prepare(folder), identity)
        with anyio.move_on_after(LOCK_TIMEOUT_S):
            while True:
                descriptor = await self._do(_try_lock, identity)
                if descriptor is not None:
                    return descriptor
                await anyio.sleep(_LOCK_PAUSE_S)
        text = f"another process keeps the sign-in of {identity.server} locked, for {LOCK_TIMEOUT_S:g} s"
        raise SignInError(Problem.NOT_STORED, text)

    def stamp(self, identity: Identity) -> object:
        """Something that is another when the record was changed, as `TokenStore` has it."""
        try:
            found = record_path(self.folder, identity).lstat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    async def _do(self, action: Callable[..., T], *arguments: object) -> T:
        """Do something with the files in a thread.

        Raises:
            SignInError: The system refuses it.
        """
        try:
            return await anyio.to_thread.run_sync(partial(action, self.folder, *arguments))
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            text = f"sign-ins cannot be kept in {self.folder}:{where} {error.strerror or error}"
            raise SignInError(Problem.NOT_STORED, text) from error

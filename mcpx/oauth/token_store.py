"""Where the tokens of sign-ins are kept: `FileStore`, a file for each, or the keychain of the system.

What is written is there whole or not at all, also after a crash. Two processes that refresh the same tokens
take turns by `lock`, and read again what is stored once they have it. Nothing here shows a token.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio
import anyio.to_thread
import structlog

from mcpx.core.config.server_config import TokenStoreKind
from mcpx.oauth import record_files
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.record import Identity, Record
from mcpx.paths import state_folder

log = structlog.get_logger()
FOLDER: Final = "oauth"
"""In the state folder: the records of sign-ins."""
LOCK_TIMEOUT_S: Final = 45.0  # for another process: a refresh takes 30 s at most
_LOCK_PAUSE_S: Final = 0.02

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


class FileStore:
    """Keeps each record in a file. `state` is the state folder, if not the usual one."""

    def __init__(self, state: Path | None = None) -> None:
        self._state = state

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return (self._state or state_folder()) / FOLDER

    async def read(self, identity: Identity) -> Record | None:
        """The record of that identity, as `TokenStore` has it."""
        try:
            return await self._do(record_files.read_record, identity)
        except record_files.UnusableRecord as error:
            if (aside := await self._do(record_files.set_aside, identity)) is None:
                return await self.read(identity)
            log.warning("oauth.record_set_aside", server=identity.server, reason=str(error), path=str(aside))
            return None

    async def write(self, record: Record) -> None:
        """Put a record in the place of the one of its identity, as `TokenStore` has it."""
        await self._do(record_files.write_record, record)

    async def delete(self, identity: Identity) -> None:
        """Remove the record of that identity, as `TokenStore` has it."""
        await self._do(record_files.delete_record, identity)

    async def remove_file(self, identity: Identity) -> None:
        """Remove the record alone, which another store has by now.

        Raises:
            SignInError: It cannot be removed (`NOT_STORED`).
        """
        await self._do(record_files.remove_record, identity)

    @asynccontextmanager
    async def lock(self, identity: Identity) -> AsyncIterator[None]:
        """Keep out others, as `TokenStore` has it."""
        descriptor = await self._locked(identity)
        try:
            yield
        finally:
            os.close(descriptor)

    async def _locked(self, identity: Identity) -> int:
        await self._do(lambda folder, _: record_files.prepare(folder), identity)
        with anyio.move_on_after(LOCK_TIMEOUT_S):
            while True:
                descriptor = await self._do(record_files.try_lock, identity)
                if descriptor is not None:
                    return descriptor
                await anyio.sleep(_LOCK_PAUSE_S)
        text = f"another process keeps the sign-in of {identity.server} locked, for {LOCK_TIMEOUT_S:g} s"
        raise SignInError(Problem.NOT_STORED, text)

    def stamp(self, identity: Identity) -> object:
        """Something that is another when the record was changed, as `TokenStore` has it."""
        try:
            found = record_files.record_path(self.folder, identity).lstat()
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


def open_store(kind: TokenStoreKind, state: Path | None = None) -> TokenStore:
    """The store of that kind. `state` is the state folder, if not the usual one. Nothing is created yet."""
    files = FileStore(state)
    if kind == "keychain":
        from mcpx.oauth.keychain_store import KeychainStore  # noqa: PLC0415 - it keeps its locks in `files`

        return KeychainStore(files)
    return files

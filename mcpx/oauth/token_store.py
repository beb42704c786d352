"""The store of tokens: a file for each record (`TokenStore`), or the system's keychain (`KeychainStore`).

What is written is there whole or not at all, also after a crash. Two processes that refresh the same tokens
take turns by `lock`, and read again what is stored once they have it. Nothing here shows a token.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

import anyio
import anyio.to_thread
import structlog

from mcpx.core.config.server_config import TokenStoreKind
from mcpx.core.running import in_force, keychain
from mcpx.core.store.private_files import replace_file
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.record import (
    Identity,
    Record,
    UnusableRecord,
    decode_record,
    delete_record,
    encode_record,
    lock_record,
    mark_path,
    prepare,
    read_record,
    record_path,
    remove_record,
    set_aside,
    write_record,
)
from mcpx.paths import state_folder

log = structlog.get_logger()
FOLDER: Final = "oauth"
"""In the state folder: the records of sign-ins."""
LOCK_TIMEOUT_S: Final = 45.0  # for another process: a refresh takes 30 s at most
_LOCK_PAUSE_S: Final = 0.02
SERVICE: Final = "mcpx sign-ins"
"""Another service than that of `${keychain:NAME}`, so that no configuration can name a token."""
T = TypeVar("T")


class TokenStore:
    """Keeps each record in a file. `state` is the state folder, if not the usual one.

    No method blocks the event loop.
    """

    def __init__(self, state: Path | None = None) -> None:
        self._state = state

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return (self._state or state_folder()) / FOLDER

    async def read(self, identity: Identity) -> Record | None:
        """The record of that identity; None if there is none, or none that can be used.

        Raises:
            SignInError: The store cannot be read (`NOT_STORED`).
        """
        try:
            return await self._do(read_record, identity)
        except UnusableRecord as error:
            if (aside := await self._do(set_aside, identity)) is None:
                return await self.read(identity)
            log.warning("oauth.record_set_aside", server=identity.server, reason=str(error), path=str(aside))
            return None

    async def write(self, record: Record) -> None:
        """Put a record in the place of the one of its identity, durably.

        Raises:
            SignInError: It cannot be written (`NOT_STORED`); what was there is there.
        """
        await self._do(write_record, record)

    async def delete(self, identity: Identity) -> None:
        """Remove the record of that identity, with all that is left of it. Only under its `lock`.

        Raises:
            SignInError: It cannot be removed (`NOT_STORED`).
        """
        await self._do(delete_record, identity)

    @asynccontextmanager
    async def lock(self, identity: Identity) -> AsyncIterator[None]:
        """Keep out the other processes, and tasks, that change this record: a bounded wait.

        Raises:
            SignInError: Another one does not let go of it (`NOT_STORED`).
        """
        descriptor = await self._locked(identity)
        try:
            yield
        finally:
            os.close(descriptor)

    async def _locked(self, identity: Identity) -> int:
        await self._do(lambda folder, _: prepare(folder), identity)
        with anyio.move_on_after(LOCK_TIMEOUT_S):
            while True:
                descriptor = await self._do(lock_record, identity)
                if descriptor is not None:
                    return descriptor
                await anyio.sleep(_LOCK_PAUSE_S)
        text = f"another process keeps the sign-in of {identity.server} locked, for {LOCK_TIMEOUT_S:g} s"
        raise SignInError(Problem.NOT_STORED, text)

    def stamp(self, identity: Identity) -> object:
        """Something that is another when the record was changed, by whomever; None without one. Quick."""
        try:
            found = record_path(self.folder, identity).lstat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    async def _do(self, action: Callable[..., T], *arguments: object) -> T:
        """Do something with the files in a thread."""
        try:
            return await anyio.to_thread.run_sync(partial(action, self.folder, *arguments))
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            text = f"sign-ins cannot be kept in {self.folder}:{where} {error.strerror or error}"
            raise SignInError(Problem.NOT_STORED, text) from error


class KeychainStore(TokenStore):
    """Keeps each record in the keychain of the system, and reads those that are still in files.

    Locks, and a mark for each record that the keychain holds (an empty file), are in the folder of the files:
    the keychain is not asked for what it never had. A record that a file still has is read from there, and
    moves to the keychain when it is written next.
    """

    async def read(self, identity: Identity) -> Record | None:
        """The record of that identity, wherever it is."""
        if self._mark(identity).exists():
            value = await _ask("get", identity)
            with suppress(UnusableRecord):
                if value is not None:
                    return decode_record(value.encode(errors="replace"), identity)
        return await super().read(identity)

    async def write(self, record: Record) -> None:
        """Put a record into the keychain, and remove the file that had it."""
        mark = self._mark(record.identity)
        try:
            await anyio.to_thread.run_sync(prepare, mark.parent)
            replace_file(mark, b"", synced=False)  # first: what the keychain has from now on is to be found
        except OSError as error:
            text = f"sign-ins cannot be noted in {mark.parent}: {error.strerror or error}"
            raise SignInError(Problem.NOT_STORED, text) from error
        value = encode_record(record).decode()
        await _ask("put", record.identity, value)
        await self._do(remove_record, record.identity)

    async def delete(self, identity: Identity) -> None:
        """Remove the record from the keychain and from the files."""
        mark = self._mark(identity)
        if mark.exists():
            await _ask("remove", identity)
            with suppress(FileNotFoundError):
                mark.unlink()
        await super().delete(identity)

    def stamp(self, identity: Identity) -> object:
        """The stamp of its mark; of the file, while the keychain has none."""
        with suppress(OSError):
            found = self._mark(identity).lstat()
            return found.st_ino, found.st_mtime_ns
        return super().stamp(identity)

    def _mark(self, identity: Identity) -> Path:
        return mark_path(self.folder, identity)


async def _ask(do: Literal["get", "put", "remove"], identity: Identity, value: str = "") -> str | None:
    """Have the keychain used once."""
    key = identity.key

    def ask() -> str | None:
        return keychain.ask(do, [key], in_force(), service=SERVICE, value=value).get(key)

    try:
        return await anyio.to_thread.run_sync(ask)
    except keychain.KeychainError as error:
        text = f'sign-ins cannot be kept in the keychain: {error}; or set "token_store" to "file"'
        raise SignInError(Problem.NOT_STORED, text) from None


def open_store(kind: TokenStoreKind, state: Path | None = None) -> TokenStore:
    """Open the store of that kind. `state` is the state folder, if not the usual one. Nothing is created."""
    return KeychainStore(state) if kind == "keychain" else TokenStore(state)

"""`KeychainStore`: the token store that is the system's keychain.

Locks, and a mark for each record that the keychain holds (an empty file), are in the folder of a `FileStore`:
the keychain is not asked for what it never had. A record that the file store still has is read from there,
and moves to the keychain when it is written next.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Final, Literal

import anyio.to_thread

from mcpx.core.running import in_force, keychain
from mcpx.core.store.private_files import replace_file
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.record import Identity, Record
from mcpx.oauth.token_store import FileStore, UnusableRecord, decode_record, encode_record, mark_path, prepare

SERVICE: Final = "mcpx sign-ins"
"""Another service than that of `${keychain:NAME}`, so that no configuration can name a token."""


class KeychainStore:
    """Keeps each record in the keychain; `files` has the locks, and the records of before."""

    def __init__(self, files: FileStore) -> None:
        self._files = files

    async def read(self, identity: Identity) -> Record | None:
        """The record of that identity, as `TokenStore` has it."""
        if self._mark(identity).exists():
            value = await _ask("get", identity)
            with suppress(UnusableRecord):
                if value is not None:
                    return decode_record(value.encode(errors="replace"), identity)
        return await self._files.read(identity)

    async def write(self, record: Record) -> None:
        """Put a record in the place of the one of its identity, as `TokenStore` has it."""
        mark = self._mark(record.identity)
        try:
            await anyio.to_thread.run_sync(prepare, mark.parent)
            replace_file(mark, b"", synced=False)  # first: what the keychain has from now on is to be found
        except OSError as error:
            text = f"sign-ins cannot be noted in {mark.parent}: {error.strerror or error}"
            raise SignInError(Problem.NOT_STORED, text) from error
        value = encode_record(record).decode()
        await _ask("put", record.identity, value)
        await self._files.remove_file(record.identity)

    async def delete(self, identity: Identity) -> None:
        """Remove the record of that identity, as `TokenStore` has it."""
        mark = self._mark(identity)
        if mark.exists():
            await _ask("remove", identity)
            with suppress(FileNotFoundError):
                mark.unlink()
        await self._files.delete(identity)

    def lock(self, identity: Identity) -> AbstractAsyncContextManager[None]:
        """Keep out others, as `TokenStore` has it."""
        return self._files.lock(identity)

    def stamp(self, identity: Identity) -> object:
        """Something that is another when the record was changed, as `TokenStore` has it."""
        with suppress(OSError):
            found = self._mark(identity).lstat()
            return found.st_ino, found.st_mtime_ns
        return self._files.stamp(identity)

    def _mark(self, identity: Identity) -> Path:
        return mark_path(self._files.folder, identity)


async def _ask(do: Literal["get", "put", "remove"], identity: Identity, value: str = "") -> str | None:
    """Have the keychain used once.

    Raises:
        SignInError: It cannot be (`NOT_STORED`).
    """
    key = identity.key

    def ask() -> str | None:
        return keychain.ask(do, [key], in_force(), service=SERVICE, value=value).get(key)

    try:
        return await anyio.to_thread.run_sync(ask)
    except keychain.KeychainError as error:
        text = f'sign-ins cannot be kept in the keychain: {error}; or set "token_store" to "file"'
        raise SignInError(Problem.NOT_STORED, text) from None

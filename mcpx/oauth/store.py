"""Where the tokens of sign-ins are kept: a file for each in the state folder, or the system's keychain.

What is written is there whole or not at all, also after a crash. Two processes that refresh the same tokens
take turns by `lock`, and read again what is stored once they have it. Nothing here shows a token.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from mcpx.config.auth import TokenStoreKind
from mcpx.oauth.record import Identity, Record


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


def open_store(kind: TokenStoreKind, state: Path | None = None) -> TokenStore:
    """The store of that kind. `state` is the state folder, if not the usual one. Nothing is created yet."""
    from mcpx.oauth.file_store import FileStore  # noqa: PLC0415 - it imports this module's names

    files = FileStore(state)
    if kind == "keychain":
        from mcpx.oauth.keychain_store import KeychainStore  # noqa: PLC0415 - few have such

        return KeychainStore(files)
    return files

"""`KeptRecord`: one record in memory and in the store, and the ways in which it changes.

What is stored counts: another process may have signed in, refreshed or signed out. Only a refreshed token
that could not be stored is ahead of it, and is written as soon as that is possible.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio
import structlog
from msgspec.structs import replace

from mcpx.core.config.redaction import hide_values
from mcpx.oauth.errors import SignInError
from mcpx.oauth.record import Identity, Record
from mcpx.oauth.token_store import TokenStore

log = structlog.get_logger()


class KeptRecord:
    """The record of an identity. `on_change` is called in the turn in which `record` is another."""

    def __init__(self, identity: Identity, store: TokenStore, on_change: Callable[[], None]) -> None:
        self.record: Record | None = None
        self.is_loaded = False
        self.is_unstored = False
        """Whether `record` is newer than what is stored."""
        self._identity = identity
        self._store = store
        self._on_change = on_change
        self._stamp: object = None
        self._turn = anyio.Lock()  # of those who look

    def use(self, store: TokenStore) -> None:
        """Keep it elsewhere from now on, where it is not stored yet."""
        self._store, self._stamp = store, None
        self.is_unstored = self.record is not None

    async def load(self) -> None:
        """Take in what is stored, once.

        Raises:
            SignInError: It cannot be read; that is not tried again.
        """
        if not self.is_loaded:
            async with self._turn:
                await self._load_once()

    async def _load_once(self) -> None:
        if self.is_loaded:  # by another, while this one had to wait
            return
        try:
            await self._look()
        except SignInError:
            self.is_loaded = True
            raise
        self.is_loaded = True

    async def look(self, *, again: bool = False) -> bool:
        """Take in what another process has stored; whether it is something else. Quick if nothing was stored.

        Raises:
            SignInError: It cannot be read.
        """
        async with self._turn:
            if not again and (self._store.stamp(self._identity) == self._stamp or self.is_unstored):
                return False
            return await self._look()

    async def _look(self) -> bool:
        self._stamp = stamp = self._store.stamp(self._identity)  # a keychain that refuses is not asked again
        stored = None if stamp is None else await self._store.read(self._identity)
        if not self._is_other(stored):
            return False
        self._take(stored)
        return True

    def _is_other(self, stored: Record | None) -> bool:
        """Return True if another process has changed what is stored."""
        if self.is_unstored:
            return stored is not None and self.record is not None and stored.revision > self.record.revision
        return stored != self.record

    async def save(self, record: Record) -> None:
        """Store a record, and then take it in. Its revision is above every other so far.

        Raises:
            SignInError: It cannot be stored; nothing has changed.
        """
        async with self._store.lock(self._identity):
            stored = await self._store.read(self._identity)
            known = [each.revision for each in (stored, self.record, record) if each is not None]
            revision = max(max(known) + 1, int(time.time() * 1000))  # above that of one that was deleted
            await self._write(replace(record, identity=self._identity, revision=revision))

    async def delete(self) -> Record | None:
        """Remove what is stored, and return it.

        Raises:
            SignInError: It cannot be removed; nothing has changed.
        """
        async with self._store.lock(self._identity):
            record = self.record if self.is_unstored else await self._store.read(self._identity)
            await self._store.delete(self._identity)
            self._stamp = self._store.stamp(self._identity)
        self._take(None)
        return record

    async def renew(
        self, fetch: Callable[[Record | None], Awaitable[Record]], is_enough: Callable[[Record | None], bool]
    ) -> None:
        """Have a newer record: what another process has stored, if that `is_enough`, else what is fetched.

        Raises:
            SignInError: There is none, or the store cannot be used.
        """
        async with self._store.lock(self._identity):
            stored = await self._store.read(self._identity)
            if self._is_other(stored):
                self._take(stored)
            if is_enough(self.record):
                return
            base = self.record
            record = await fetch(base)
            revision = max(record.revision, 1 + (base.revision if base is not None else 0))
            record = replace(record, identity=self._identity, revision=revision)
            try:
                await self._write(record)
            except SignInError as error:  # the old one may be void by now: this one is all that there is
                log.warning("oauth.not_stored", server=self._identity.server, reason=str(error))
                self._take(record, is_unstored=True)

    async def store_again(self) -> None:
        """Store what could not be stored before.

        Raises:
            SignInError: It still cannot.
        """
        async with self._store.lock(self._identity):
            stored = await self._store.read(self._identity)
            if self._is_other(stored):
                self._take(stored)
            elif (record := self.record) is not None and self.is_unstored:
                await self._write(record)

    async def _write(self, record: Record) -> None:
        await self._store.write(record)
        self._stamp = self._store.stamp(self._identity)
        self._take(record)

    def _take(self, record: Record | None, *, is_unstored: bool = False) -> None:
        self.record, self.is_loaded, self.is_unstored = record, True, is_unstored
        if record is not None:
            hide_values(self._identity.key, _secrets_in(record))
        self._on_change()


def _secrets_in(record: Record) -> dict[str, str | None]:
    """The values in a record that nobody may see, by what they are called in a text."""
    tokens, client = record.tokens, record.registration
    return {
        "access token": tokens.access_token if tokens is not None else None,
        "refresh token": tokens.refresh_token if tokens is not None else None,
        "client secret": client.client_secret if client is not None else None,
    }

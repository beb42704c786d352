"""The state of the sign-in of one server: its record, whether that counts, and how it changes.

`mcpx.oauth.account` puts it to use on requests. Nobody here waits for a person.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

import anyio
import structlog
from msgspec.structs import replace

from mcpx.core.config import ServerConfig
from mcpx.oauth.challenge import Challenge
from mcpx.oauth.errors import SignInError
from mcpx.oauth.kept_record import KeptRecord
from mcpx.oauth.record import Identity, Record, Tokens
from mcpx.oauth.renewal import Background, Renewal, good_until
from mcpx.oauth.token_store import TokenStore
from mcpx.paths import config_hint
from supervisors import Signal

EXPIRED: Final = "its token has expired, and there is none to renew it with"

log = structlog.get_logger()


class AccountState(StrEnum):
    """The state of an account, as far as it is known."""

    UNKNOWN = "unknown"
    """There are no tokens, and the server has not asked for any yet."""
    SIGNED_IN = "signed in"
    NEEDS_SIGN_IN = "needs sign-in"
    """The server wants tokens, and a person has to sign in for them."""


class StoredAccount:
    """The sign-in of one server, for as long as its entry says the same of it.

    `on_change` is called when it was signed in or out, needs a sign-in, or has tokens again; it must not
    raise. `background` is where renewals run. `clock` gives seconds since 1970.
    """

    def __init__(
        self,
        server: ServerConfig,
        identity: Identity,
        store: TokenStore,
        background: Background,
        *,
        on_change: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.server = server
        self.identity = identity
        self.state = AccountState.UNKNOWN
        self.challenge: Challenge | None = None
        """What the server has asked for and is not granted: by a 401, or by a 403 for want of a scope."""
        self._problem: str | None = None
        self._on_change = on_change
        self._clock = clock
        self._kept = KeptRecord(identity, store, self._record_changed)
        self._renewal = Renewal(server, self._kept, background, clock=clock, on_recovery=on_change)
        self.news = Signal()
        """Set when there may be something to `attend` to."""
        self._header: str | None = None
        self._good_until = -math.inf  # by the clock: so long `authorize` need not look further

    # --- what is known of it

    @property
    def record(self) -> Record | None:
        """The stored record, as far as it was loaded."""
        return self._kept.record

    @property
    def problem(self) -> str | None:
        """The reason for having no token, or for a failed renewal: a sentence without secrets."""
        return self._problem or self._renewal.problem

    @property
    def is_usable(self) -> bool:
        """True if a request may succeed: nobody has to sign in first, as far as is known."""
        return self.state is not AccountState.NEEDS_SIGN_IN

    @property
    def needs_person(self) -> bool:
        """True if something is asked for that a person has not granted: a sign-in, or more scopes."""
        return not self.is_usable or self.challenge is not None

    @property
    def is_of_person(self) -> bool:
        """True if a person signs in, and not the client by itself."""
        return self._renewal.is_of_person

    @property
    def is_known(self) -> bool:
        """True once a sign-in is stored, or the server has asked for one."""
        return self.record is not None or self.state is not AccountState.UNKNOWN

    @property
    def asked_scopes(self) -> Sequence[str]:
        """The scopes that the server has asked for."""
        return ((self.challenge and self.challenge.scope) or "").split()

    @property
    def expires_at(self) -> float | None:
        """The expiry of the access token, in seconds since 1970; None if there is none, or if it lasts."""
        return None if self._tokens is None else self._tokens.expires_at

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that were granted, as far as the authorization server said."""
        return tuple(((self._tokens and self._tokens.scope) or "").split())

    @property
    def account_name(self) -> str | None:
        """The name of the account that was signed in with, as far as the authorization server has told it."""
        record = self._kept.record
        return None if record is None or record.tokens is None else record.account

    @property
    def login_command(self) -> str:
        """The command that signs in: `mcpx login NAME`, with the configuration if it is not the usual one."""
        hint = config_hint(self.server.source, {}) if self.server.source else ""  # a terminal has another one
        return f"mcpx login {shlex.quote(self.server.name)}{hint}"

    @property
    def _tokens(self) -> Tokens | None:
        return None if self._kept.record is None else self._kept.record.tokens

    # --- for those who sign in and out

    async def load(self) -> None:
        """Take in what is stored, once. Never raises: a store that cannot be read is the `problem`."""
        try:
            await self._kept.load()
        except SignInError as error:
            self._problem = str(error)
        if self._tokens is None and self._kept.is_loaded:
            self._good_until = math.inf

    async def reload(self) -> None:
        """Take in what is stored now, and try again what was refused: for a restart. Never raises."""
        self._problem = None
        self._renewal.reset()
        try:
            await self._kept.look(again=True)
        except SignInError as error:
            self._problem = str(error)
        self.state = AccountState.UNKNOWN if self._tokens is None else AccountState.SIGNED_IN
        self._put_in_force()

    async def adopt(self, record: Record) -> None:
        """Have the result of a sign-in stored, and then put it in force.

        Raises:
            SignInError: It cannot be stored (`NOT_STORED`); nothing has changed.
        """
        with anyio.CancelScope(shield=True):  # bounded; the code that it was had for is used up
            await self._kept.save(record)
        self._signed_in()

    async def keep(self, record: Record) -> None:
        """Store what a sign-in that goes on has come to, a registration; tokens that are stored stay.

        Raises:
            SignInError: It cannot be stored (`NOT_STORED`).
        """
        await self.load()
        if self._tokens is None:
            await self._kept.save(replace(record, tokens=None))

    async def forget(self) -> Record | None:
        """Sign out here: remove what is stored. Returns it, to be revoked.

        Raises:
            SignInError: It cannot be removed (`NOT_STORED`); nothing has changed.
        """
        with anyio.CancelScope(shield=True):  # bounded, as above
            record = await self._kept.delete()
        return record  # noqa: RET504 - the scope hides the return from mypy

    # --- for the refresher

    def use(self, store: TokenStore) -> None:
        """Keep the record elsewhere from now on; `attend` writes it there."""
        self._kept.use(store)
        self.news.set()

    def due_in_s(self) -> float:
        """Seconds until `attend` has something to do ahead of an expiry; infinite for never."""
        if self.state is not AccountState.SIGNED_IN:
            return math.inf
        if self._renewal.is_possible:
            return self._renewal.due_in_s()
        return max(0.0, self._good_until - self._clock())

    async def attend(self) -> None:
        """Take in what another process has stored, and renew the tokens if that is due. Never raises."""
        await self.load()
        await self.look()
        if self.due_in_s() > 0:
            return
        if self._renewal.is_possible:
            await self._renewal.renew(ahead=True)
        if self._is_over():
            self._need_sign_in(EXPIRED)

    async def look(self) -> None:
        """Take in what another process has stored; store what could not be stored before. Never raises."""
        try:
            if self._kept.is_unstored:
                await self._kept.store_again()
            elif await self._kept.look() and self._tokens is not None:
                self._signed_in()
        except SignInError as error:
            log.debug("oauth.store_unusable", server=self.server.name, reason=str(error))

    def _is_over(self) -> bool:
        """Return True if the token has expired, and nothing but a person can help."""
        return self.is_of_person and not self._renewal.is_possible and self._clock() >= self._good_until

    # --- how it changes

    def _need_sign_in(self, reason: str | None) -> None:
        """Enter that state; a failed renewal is the better reason."""
        if self._renewal.problem is None:
            self._problem = reason or self._problem
        if self._tokens is not None:
            self._good_until = -math.inf
        self._enter(AccountState.NEEDS_SIGN_IN)

    def _signed_in(self) -> None:
        """Take in that a person has signed in: what was asked for may be granted now."""
        self.challenge = None
        self._on_change()

    def _record_changed(self) -> None:
        self._renewal.reset()
        self._problem = None
        self.news.set()
        self._put_in_force()
        if self._tokens is None:
            if self.state is AccountState.SIGNED_IN:
                self._enter(AccountState.UNKNOWN)
        elif self._is_over():
            self._need_sign_in(EXPIRED)
        else:
            self._enter(AccountState.SIGNED_IN)

    def _put_in_force(self) -> None:
        tokens = self._tokens
        self._header = None if tokens is None else f"Bearer {tokens.access_token}"
        self._good_until = math.inf if tokens is None else good_until(tokens)

    def _enter(self, state: AccountState) -> None:
        if state is not self.state:
            self.state = state
            self.news.set()
            self._on_change()

"""The accounts of all servers, and the one refresher: run by the hub.

`of` gives the account of a server's entry, the same one for as long as the entry signs in alike. `run` keeps
their tokens fresh, ahead of their expiry, and notices what another process has stored. Without it (the
command line, a library) tokens are renewed when they are needed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.abc

from mcpx.core.config import Config, Http, ServerConfig, Sse
from mcpx.core.config.server_config import TokenStoreKind
from mcpx.errors import MCPXError
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.record import Identity, identity_of
from mcpx.oauth.renewal import Background
from mcpx.oauth.stored_account import AccountState, StoredAccount
from mcpx.oauth.token_store import open_store
from supervisors import Incarnation, Signal

if TYPE_CHECKING:
    from mcpx.oauth.account import Account

LOOK_INTERVAL_S: Final = 5.0  # between looks at what another process may have stored, and at the clock
TICK_S: Final = 1 / 64  # what waits are a multiple of


class Accounts:
    """The accounts of a hub's servers. `state` is the folder of the token store, if not the usual one.

    `on_change` is called with a server's name when its account was signed in or out, needs a sign-in, or has
    tokens again, in the turn of that; it must not raise. `clock` gives seconds since 1970.
    """

    def __init__(
        self,
        state: Path | None = None,
        *,
        kind: TokenStoreKind = "file",
        on_change: Callable[[str], None] = lambda _name: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._kind = kind
        self._store = open_store(kind, state)
        self._on_change = on_change
        self._clock = clock
        self._accounts: dict[Identity, Account] = {}
        self._background = Background()
        self._added = Signal()

    def of(self, server: ServerConfig) -> Account | None:
        """The account of a server; None for one that MCPX does not sign in to."""
        if server.disabled is not None or (identity := identity_of(server)) is None:
            return None
        found = self._accounts.get(identity)
        if found is None or found.server.transport != server.transport:
            if found is not None:
                found.news.set()
            from mcpx.oauth.account import Account  # noqa: PLC0415 - for those who have servers over HTTP

            found = self._accounts[identity] = Account(
                server,
                identity,
                self._store,
                background=self._background,
                on_change=partial(self._on_change, server.name),
                clock=self._clock,
            )
            self._added.set()
        return found

    def configure(self, config: Config) -> None:
        """Take in another configuration, before its servers are looked up."""
        if config.token_store != self._kind:
            self._kind = config.token_store
            self._store = open_store(self._kind, self._state)
            for account in self._accounts.values():
                account.use(self._store)
        entries = (*(each for each in config.servers.values() if each.peer is None), *config.peers.values())
        wanted = {identity_of(server) for server in entries if server.disabled is None}
        for identity in self._accounts.keys() - wanted:
            self._accounts.pop(identity).news.set()

    async def run(self, incarnation: Incarnation) -> None:
        """Keep the tokens fresh, until asked to leave; a renewal that is under way is finished."""
        async with anyio.create_task_group() as tasks:
            self._background.tasks = tasks
            try:
                incarnation.ready()
                await incarnation.while_wanted(partial(self._keep_all_fresh, tasks))
            finally:
                self._background.tasks = None
            tasks.cancel_scope.cancel()

    async def _keep_all_fresh(self, tasks: anyio.abc.TaskGroup) -> None:
        kept: set[Account] = set()
        while True:
            self._added.clear()
            accounts = set(self._accounts.values())
            for account in accounts - kept:
                tasks.start_soon(self._keep_fresh, account)
            kept = accounts
            await self._added.wait()

    async def _keep_fresh(self, account: Account) -> None:
        """Attend to an account when that is due, and now and then, for as long as it is that of an entry."""
        while self._accounts.get(account.identity) is account:
            account.news.clear()
            await account.attend()
            if account.state is AccountState.UNKNOWN:  # it looks by itself when its server wants a sign-in
                await account.news.wait()
                continue
            ticks = min(LOOK_INTERVAL_S, account.due_in_s()) // TICK_S + 1
            with anyio.move_on_after(ticks * TICK_S):
                await account.news.wait()


# --- whose account it is, and whether a person has to sign in


def account_at(server: ServerConfig, account: StoredAccount | None) -> StoredAccount:
    """The account of a server, if it has one.

    Raises:
        MCPXError: The server is disabled.
        SignInError: `NOT_FOR_PEOPLE`: MCPX does not sign in there.
    """
    if server.disabled is not None:
        raise MCPXError(f"{server.name} is disabled: {server.disabled}")
    if account is None:
        raise SignInError(Problem.NOT_FOR_PEOPLE, f"{server.name} has no sign-in: {_why_not(server)}")
    return account


def person_account(server: ServerConfig, account: StoredAccount | None) -> StoredAccount:
    """The account of a server that a person signs in to.

    Raises:
        MCPXError: The server is disabled.
        SignInError: `NOT_FOR_PEOPLE`: nobody signs in there.
    """
    found = account_at(server, account)
    if not found.is_of_person:
        text = f"{server.name} needs nobody: MCPX signs in to it as a client (client_credentials)"
        raise SignInError(Problem.NOT_FOR_PEOPLE, text)
    return found


def _why_not(server: ServerConfig) -> str:
    if not isinstance(server.transport, Http | Sse):
        return "it is a program on this computer"
    if server.transport.auth is None:
        return '"auth": false is in its entry'
    return "its entry has a header Authorization"


async def signed_in(accounts: Mapping[str, StoredAccount | None]) -> list[str]:
    """The servers for which a sign-in is stored, of accounts by their names."""
    found: list[str] = []
    for name, account in accounts.items():
        if account is not None:
            await account.load()
            if account.record is not None:
                found.append(name)
    return found


async def needs_sign_in(account: StoredAccount) -> bool:
    """Return True if a person has to sign in; a server without tokens, which nobody tried, is asked."""
    await account.load()
    tokens = account.record.tokens if account.record else None
    if tokens is None:
        from mcpx.oauth.discovery import answers_401  # noqa: PLC0415 - for those who look

        return await answers_401(account.server)
    return tokens.refresh_token is None and (tokens.expires_at or math.inf) <= time.time()
